from django.apps import AppConfig

from trace_site.access import ADMINS, ROLES, WRITERS, Area
from trace_site.limits import AROUND_A_FILE, CATALOG_FILE, IN_MEMORY


class CatalogConfig(AppConfig):
    name = "catalog"
    areas = [
        Area(
            ROLES,
            WRITERS,
            """catalog:list catalog:apis catalog:detail catalog:named catalog:refresh catalog:imports
            catalog:import_detail catalog:import_undo api-tools api-tool api-tool-named
            api-tool-neighbours api-tool-twins api-tool-revisions api-domains api-clusters api-cluster
            api-imports api-import api-import-undo""",
        ),
        Area(WRITERS, WRITERS, "catalog:import catalog:apply catalog:queries_import catalog:queries_apply"),
        Area(ADMINS, ADMINS, "catalog:block api-tool-block"),
        Area(ADMINS, ADMINS, "catalog:queries catalog:query_remove api-query"),
        Area(ADMINS, WRITERS, "api-queries"),
    ]
    larger_bodies = {
        **dict.fromkeys(("catalog:import", "api-imports"), CATALOG_FILE + AROUND_A_FILE),
        **dict.fromkeys(("catalog:queries_import", "catalog:queries_apply"), IN_MEMORY),
    }
    long_views = """catalog:apply catalog:import api-imports catalog:queries_import catalog:queries_apply
        api-queries"""
    events = {
        "catalog.imported": "A catalog file was applied.",
        "catalog.import_undone": "A catalog import was undone.",
    }
    notices = {"gap": "Look-alikes that you are asked to write a rule for."}
    audit_pages = {
        "catalogimport": "catalog:import_detail",
        "cluster": "cluster",
        "tool": "catalog:detail",
    }
