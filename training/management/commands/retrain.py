"""manage.py retrain: what the retraining policies would do, and starting one now."""

from typing import Any

from django.core.management import CommandParser

from trace_site.commands import TraceCommand, run_inline
from trace_site.jobs import Job
from trace_site.lib.errors import not_found
from training.models import RetrainPolicy, Run
from training.retraining import services
from training.retraining.selectors import Standing, standing


class Command(TraceCommand):
    help = "Start every active policy that is due; with --policy start that one now, whatever its limits say."

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("--policy", help="name of one policy: build its snapshot, train, evaluate")
        parser.add_argument(
            "--dry-run", action="store_true", help="only say what would start, and what keeps it"
        )

    def run(self, options: dict[str, Any]) -> tuple[dict[str, Any], str]:
        chosen = list(RetrainPolicy.objects.all())
        if name := options["policy"]:
            names = [policy.name for policy in chosen]
            chosen = [policy for policy in chosen if policy.name == name]
            if not chosen:
                raise not_found(f"policy {name!r}", "policies", names)
        if options["dry_run"]:
            return {"policies": [self._told(standing(policy)) for policy in chosen]}, ""
        if not options["policy"]:
            started = services.sweep()
            return {"started": started}, f"{started} of {len(chosen)} policies started"
        return self._trained(chosen[0])

    def _told(self, found: Standing) -> dict[str, Any]:
        words = "; ".join(found.verdict.reasons if found.verdict.due else found.verdict.keeps)
        self.echo(f"{found.policy}: {'due' if found.verdict.due else 'not due'}: {words}")
        return {
            "policy": found.policy.name,
            "active": found.policy.active,
            "due": found.verdict.due,
            "keeps": found.verdict.keeps,
            "earliest": found.verdict.earliest,
            **found.reasons(),
        }

    def _trained(self, policy: RetrainPolicy) -> tuple[dict[str, Any], str]:
        result = run_inline(services.start(policy=policy, actor=None), self.echo)
        run = Run.objects.select_related("job").get(pk=result["run"])
        if run.job is not None:
            result |= run_inline(run.job, self.echo)
        if follow_up := Job.objects.filter(pk=result.get("evaluation_job") or 0).first():
            result["evaluation"] = run_inline(follow_up, self.echo)
        return result, f"policy {policy} made model {result.get('model')} from snapshot {result['snapshot']}"
