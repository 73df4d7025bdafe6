"""/api/v1/rule-suggestions: draft rules that the catalog calls for, with their evidence. Nothing here publishes."""

from django.urls import path
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from rules.suggestions import selectors, services
from rules.suggestions.selectors import SuggestionFilter
from rules.suggestions.serializers import DismissIn, SuggestionOut, SuggestionsIn
from trace_site.rest.examples import AT, answer_example, page_example, request_example
from trace_site.rest.schema import page_of
from trace_site.rest.views import ApiView, page_limit

NO_SUGGESTION = OpenApiResponse(description="no such suggestion")
SUGGESTION = {
    "id": 31,
    "domain": "hr",
    "kind": "condition",
    "score": 0.95,
    "strong": True,
    "why": "The description of Leave/CancelRequest sends its reader to Leave/VoidRequest.",
    "content": {
        "tool_name": "Leave/VoidRequest",
        "confusables": ["Leave/CancelRequest"],
        "rule_text": "When it is for approved leave, use Leave/VoidRequest. Exception: when asked to cancel a leave "
        "request in any other case, use Leave/CancelRequest.",
        "clauses": [
            {
                "when": "it is for approved leave",
                "route_to": "Leave/VoidRequest",
                "exception": False,
                "signals": [],
            }
        ],
        "tests": [],
    },
    "evidence": [
        {
            "tool": "Leave/CancelRequest",
            "text": "For approved leave, use Void Request instead.",
            "marks": [[24, 36], [37, 44]],
        }
    ],
    "failures": [
        {
            "query": "take back my approved days off in May",
            "wanted": "Leave/VoidRequest",
            "chosen": "Leave/CancelRequest",
        }
    ],
    "writer": "words",
    "doubt": "",
    "dismissed_reason": "",
    "dismissed_by": None,
    "found_at": AT,
}


class SuggestionsList(ApiView):
    @extend_schema(
        parameters=[SuggestionsIn],
        responses=page_of(SuggestionOut),
        examples=[page_example(SUGGESTION, "0.95/31")],
    )
    def get(self, request: Request) -> Response:
        """List suggested rules. The strongest first: open ones, those of which no pair stands in a published rule."""
        chosen = SuggestionFilter(**self.read_query(SuggestionsIn))
        page, _ = selectors.suggestion_list(
            chosen, request.query_params.get("after", ""), page_limit(request)
        )
        rows = SuggestionOut([one.row for one in page.rows], many=True).data
        return Response({"results": rows, "next": page.next_key})


class SuggestionOne(ApiView):
    @extend_schema(responses={200: SuggestionOut, 404: NO_SUGGESTION}, examples=[answer_example(SUGGESTION)])
    def get(self, request: Request, pk: int) -> Response:
        """Read a suggested rule."""
        return Response(SuggestionOut(selectors.suggestion(pk)).data)


class SuggestionDismiss(ApiView):
    decides = True

    @extend_schema(
        request=DismissIn,
        responses={200: SuggestionOut, 404: NO_SUGGESTION},
        examples=[
            request_example({"reason": "Both names say it."}),
            answer_example({**SUGGESTION, "dismissed_reason": "Both names say it.", "dismissed_by": "erin"}),
        ],
    )
    def post(self, request: Request, pk: int) -> Response:
        """Dismiss a suggested rule. It is proposed again only when the text of one of its tools changes."""
        reason = self.read(DismissIn)["reason"]
        services.suggestion_dismiss(suggestion=selectors.suggestion(pk), reason=reason, actor=request.user)
        return Response(SuggestionOut(selectors.suggestion(pk)).data)


class SuggestionRestore(ApiView):
    decides = True

    @extend_schema(
        request=None,
        responses={200: SuggestionOut, 404: NO_SUGGESTION},
        examples=[answer_example(SUGGESTION)],
    )
    def post(self, request: Request, pk: int) -> Response:
        """Undo a dismissal."""
        services.suggestion_restore(suggestion=selectors.suggestion(pk), actor=request.user)
        return Response(SuggestionOut(selectors.suggestion(pk)).data)


urlpatterns = [
    path("rule-suggestions", SuggestionsList.as_view(), name="api-rule-suggestions"),
    path("rule-suggestions/<int:pk>", SuggestionOne.as_view(), name="api-rule-suggestion"),
    path(
        "rule-suggestions/<int:pk>/dismiss", SuggestionDismiss.as_view(), name="api-rule-suggestion-dismiss"
    ),
    path(
        "rule-suggestions/<int:pk>/restore", SuggestionRestore.as_view(), name="api-rule-suggestion-restore"
    ),
]
