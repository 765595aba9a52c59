"""What MkDocs calls while it builds the site."""

from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from docs_site.pages import linked_files, page_readers, with_site_links, with_site_lists
from docs_site.reference import api_page, recommended_schema, registries_page

_GENERATED = {
    "api.md": api_page,
    "knobs-and-objectives.md": registries_page,
    "recommended.schema.json": recommended_schema,
}


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Adds the pages that are made, those from outside docs/, and the files that pages link to."""
    for uri, content in {**page_readers(), **_GENERATED}.items():
        files.append(File.generated(config, uri, content=content()))
    for uri, path in linked_files().items():
        files.append(File.generated(config, uri, content=path.read_bytes()))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Links and lists as they are in the site."""
    return with_site_lists(with_site_links(markdown, page.file.src_uri))


def on_post_page(output: str, **_: Any) -> str:
    """Names the theme's search for those who hear the page."""
    search = 'data-md-component="search" role="dialog"'
    return output.replace(search, f'{search} aria-label="Search"')
