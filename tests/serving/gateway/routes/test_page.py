import re

from starlette.testclient import TestClient

from serving.gateway.app import create_app
from serving.gateway.middleware.keys import new_key
from serving.gateway.routes.page import FOLDER
from serving.gateway.settings import GatewaySettings

CLIENT = TestClient(create_app(GatewaySettings()), base_url="http://localhost")


def test_the_page_and_all_its_files_come_with_a_strict_policy():
    for path in ("/", "/docs", *(f"/playground/{file.name}" for file in FOLDER.iterdir())):
        answer = CLIENT.get(path)
        assert answer.status_code == 200, path
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'") and "unsafe" not in policy and "http" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_with_keys_the_pages_come_without_one_and_the_description_does_not(tmp_path):
    new_key(tmp_path / "keys.json", "visitor", "", "")
    client = TestClient(create_app(GatewaySettings(keys=tmp_path / "keys.json")), base_url="http://localhost")
    paths = ("/", "/docs", "/playground/docs.js", "/openapi.json", "/docs/other")
    assert [client.get(path).status_code for path in paths] == [200, 200, 200, 401, 401]


def test_scripts_and_styles_have_their_types():
    kinds = {
        name: CLIENT.get(f"/playground/{name}").headers["content-type"] for name in ("app.js", "style.css", "icon.svg")
    }
    assert [kind.split(";")[0] for kind in kinds.values()] == ["text/javascript", "text/css", "image/svg+xml"]


def test_nothing_outside_of_its_folder_is_served():
    for path in ("/playground/../page.py", "/playground/%2e%2e/page.py", "/playground/none.js", "/playground/"):
        answer = CLIENT.get(path)
        assert answer.status_code == 404 and answer.json()["error"]["code"] == "not_found", path


def test_no_file_names_an_address_elsewhere_or_writes_html():
    for file in FOLDER.iterdir():
        text = file.read_text().replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?://|innerHTML|outerHTML|eval\(|style=\"", text), file.name


def test_every_module_that_is_imported_is_there():
    for file in FOLDER.glob("*.js"):
        for name in re.findall(r'from "\./([a-z_]+\.js)"', file.read_text()):
            assert (FOLDER / name).is_file()


def test_no_file_is_longer_than_250_lines():
    assert [file.name for file in FOLDER.iterdir() if len(file.read_text().splitlines()) > 250] == []
