"""/api/v1/rule-suggestions: draft rules that the catalog calls for, with their evidence. Nothing here publishes."""

from django.urls import path
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from rules.suggestions import selectors, services
from rules.suggestions.selectors import SuggestionFilter
from rules.suggestions.serializers import DismissIn, SuggestionOut, SuggestionsIn
from trace_site.rest.schema import page_of
from trace_site.rest.views import ApiView, page_limit


class SuggestionsList(ApiView):
    @extend_schema(parameters=[SuggestionsIn], responses=page_of(SuggestionOut))
    def get(self, request: Request) -> Response:
        """List suggested rules. The strongest first: open ones, those of which no pair stands in a published rule."""
        chosen = SuggestionFilter(**self.read_query(SuggestionsIn))
        page, _ = selectors.suggestion_list(
            chosen, request.query_params.get("after", ""), page_limit(request)
        )
        rows = SuggestionOut([one.row for one in page.rows], many=True).data
        return Response({"results": rows, "next": page.next_key})


class SuggestionOne(ApiView):
    @extend_schema(responses=SuggestionOut)
    def get(self, request: Request, pk: int) -> Response:
        """Read a suggested rule."""
        return Response(SuggestionOut(selectors.suggestion(pk)).data)


class SuggestionDismiss(ApiView):
    decides = True

    @extend_schema(request=DismissIn, responses=SuggestionOut)
    def post(self, request: Request, pk: int) -> Response:
        """Dismiss a suggested rule. It is proposed again only when the text of one of its tools changes."""
        reason = self.read(DismissIn)["reason"]
        services.suggestion_dismiss(suggestion=selectors.suggestion(pk), reason=reason, actor=request.user)
        return Response(SuggestionOut(selectors.suggestion(pk)).data)


class SuggestionRestore(ApiView):
    decides = True

    @extend_schema(responses=SuggestionOut)
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
