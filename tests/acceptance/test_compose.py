"""docker-compose.yaml, as strictly as it can be read without an engine: against the lock, Airflow, Spark and itself."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from fnmatch import fnmatch
from graphlib import TopologicalSorter

import pytest
import yaml
from packaging.specifiers import SpecifierSet

from tidegate.cli.main import app
from tidegate.embedded_postgres.accounts import account_for
from tidegate.embedded_postgres.binaries import find_binaries
from tidegate.spark.session import connect_server
from tidegate.spark.session.connect_server import TOKEN
from tidegate.spark.session.java import find_java

AIRFLOW = ("init", "api-server", "scheduler", "dag-processor", "triggerer")
VARIABLE = re.compile(r"\$\{(?P<name>\w+)(?P<rest>[^}]*)\}")
#: Asks Airflow and Tidegate themselves, in the containers' environment: fails on a command line or a setting that
#: Airflow does not know, and answers where the connections lead.
ASK = """
import json, os, sys
from airflow.cli.cli_parser import get_parser
from airflow.configuration import conf
from tidegate.airflow.spark_connection import spark_settings
from tidegate.embedded_postgres.locate import locate_database
from tidegate.kafka.connections import brokers_of
for command in json.load(sys.stdin):
    get_parser().parse_args(command)
for name in os.environ:
    if name.startswith("AIRFLOW__"):
        _, section, option = name.split("__")
        assert option.lower() in conf.configuration_description[section.lower()]["options"], name
database = locate_database().render_as_string(hide_password=False)
brokers = brokers_of("kafka_default").servers
print(json.dumps({"spark": spark_settings("spark_default").remote, "database": database, "kafka": brokers}))
"""


@pytest.fixture(scope="module")
def text(project):
    return (project / "docker-compose.yaml").read_text()


@pytest.fixture(scope="module")
def example(project):
    lines = (project / ".env.example").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def dockerfile(services):
    return services["scheduler"]["build"]["dockerfile_inline"]


def needs(service):
    return service.get("depends_on", {})


def test_the_parts_are_all_there_and_no_more(services):
    spark = ("spark-connect", "spark-master", "spark-worker")
    assert sorted(services) == sorted([*AIRFLOW, "kafka", "postgres", "roles", *spark])
    assert services["spark-worker"]["deploy"]["replicas"] >= 2


def test_versions_are_those_of_the_lock(services, locked, project):
    [(airflow, python)] = re.findall(
        r"^FROM apache/airflow:([\d.]+)-python([\d.]+)$", dockerfile(services), re.MULTILINE
    )
    assert [(airflow, "")] == locked["apache-airflow"]
    requires = re.search(r'requires-python = "(.*)"', (project / "pyproject.toml").read_text())[1]
    assert SpecifierSet(requires).contains(python)
    # Airflow and Spark run the same image, so Spark is the lock's too.
    images = {services[name]["image"] for name in (*AIRFLOW, "spark-connect", "spark-master", "spark-worker")}
    assert len(images) == 1
    installs = 'pip install --no-cache-dir --constraint /opt/source/requirements.txt "/opt/source[demo,kafka]"'
    assert installs in dockerfile(services)


def test_postgres_is_of_the_release_that_is_embedded(services, tmp_path):
    embedded = find_binaries(account_for(tmp_path / "server"), None)
    assert services["postgres"]["image"] == services["roles"]["image"] == f"postgres:{embedded.major}"
    # Since 18 the image keeps its data in a directory of the release below this one.
    assert "postgres:/var/lib/postgresql" in services["postgres"]["volumes"]


def test_kafka_comes_on_request_alone_and_is_of_one_broker_that_containers_and_this_machine_reach(services):
    assert {name for name, service in services.items() if "profiles" in service} == {"kafka"}
    assert not any("kafka" in needs(service) for service in services.values()), "else they would not start without it"
    kafka = services["kafka"]
    assert kafka["profiles"] == ["kafka"]
    assert re.fullmatch(r"apache/kafka:\d+\.\d+\.\d+", kafka["image"])
    said = kafka["environment"]
    listeners, advertised, protocols = (
        dict(each.split("://" if "://" in each else ":", 1) for each in said[f"KAFKA_{name}"].split(","))
        for name in ("LISTENERS", "ADVERTISED_LISTENERS", "LISTENER_SECURITY_PROTOCOL_MAP")
    )
    assert listeners.keys() == protocols.keys()
    assert advertised.keys() == listeners.keys() - {said["KAFKA_CONTROLLER_LISTENER_NAMES"]}
    assert said["KAFKA_CONTROLLER_QUORUM_VOTERS"] == (
        f"{said['KAFKA_NODE_ID']}@{listeners[said['KAFKA_CONTROLLER_LISTENER_NAMES']]}"
    )
    connection = json.loads(services["scheduler"]["environment"]["AIRFLOW_CONN_KAFKA_DEFAULT"])
    assert connection["extra"]["bootstrap.servers"] == advertised["CONTAINERS"]
    assert advertised["CONTAINERS"] == f"kafka{listeners['CONTAINERS']}"
    # A client asks whom it is to talk to, and is told the address that this machine's port is bound to.
    outside, inside = kafka["ports"][0].rsplit(":", 1)
    assert outside == advertised["MACHINE"].replace("localhost", "127.0.0.1")
    assert f":{inside}" == listeners["MACHINE"]
    assert f"{said['KAFKA_LOG_DIRS']}" in kafka["volumes"][0], "what it holds outlives the container"


def test_what_the_image_copies_exists_and_is_sent_to_the_build(services, project):
    rules = (project / ".dockerignore").read_text().split()
    copied = [
        word
        for line in re.findall(r"^COPY --chown=\S+ (.*) \S+$", dockerfile(services), re.MULTILINE)
        for word in line.split()
    ]
    assert sorted(copied) == ["LICENSE", "README.md", "examples", "include", "pyproject.toml", "requirements.txt"]
    for name in copied:
        assert (project / name).exists(), name
        assert f"!{name}" in rules, name
    assert rules[0] == "*"


def test_every_variable_has_a_default_or_is_demanded_and_is_in_the_example(text, example):
    used = {match["name"]: match["rest"] for match in VARIABLE.finditer(text)}
    assert used.pop("TIDEGATE_IMAGE_TAG") == ":-local"
    assert used.keys() == example.keys()
    for name, rest in used.items():
        if example[name] == "RANDOM":
            assert rest == ":?run make env first", name
        else:
            assert rest == f":-{example[name]}", name


def test_no_secret_is_written_down(text):
    for number, line in enumerate(text.splitlines(), 1):
        key, _, value = line.strip().partition(": ")
        if re.fullmatch(r"\w*(PASSWORD|SECRET|FERNET|JWT)\w*", key) and not key.endswith("PASSWORDS_FILE"):
            assert re.fullmatch(r"\$\{\w+:\?run make env first\}", value), f"line {number}: {line}"
    assert re.findall(r"://\w+:(?!\$\{)[^@\s]+@", text) == []
    assert re.findall(r'"password": "(?!\$\{)', text) == []


def test_ports_are_open_on_this_machine_only(services):
    ports = [port for service in services.values() for port in service.get("ports", [])]
    assert ports
    assert all(re.fullmatch(r"127\.0\.0\.1:\$\{\w+:-\d+\}:\d+", port) for port in ports)


def test_nothing_waits_for_what_is_not_there_or_cannot_be_known(services):
    for name, service in services.items():
        for other, terms in needs(service).items():
            if terms["condition"] == "service_healthy":
                assert "healthcheck" in services[other], (name, other)
            else:
                assert terms["condition"] == "service_completed_successfully", (name, other)
                assert services[other]["restart"] == "no", (name, other)
    order = list(TopologicalSorter({name: list(needs(service)) for name, service in services.items()}).static_order())
    assert (
        order.index("postgres")
        < order.index("roles")
        < order.index("init")
        < min(order.index(name) for name in AIRFLOW[1:])
    )


def test_whatever_goes_on_running_is_watched_and_started_again(services):
    for name, service in services.items():
        if name not in ("roles", "init"):
            check = service["healthcheck"]
            assert check["test"][0] in ("CMD", "CMD-SHELL"), name
            assert check["interval"], name
            assert check["retries"] > 1, name
            assert service["restart"] == "unless-stopped", name


def test_volumes_are_declared_and_used_and_directories_exist(text, services, project):
    mounted = [mount.split(":")[0] for service in services.values() for mount in service.get("volumes", [])]
    assert {name for name in mounted if not name.startswith(".")} == set(yaml.safe_load(text)["volumes"])
    assert all((project / name).is_dir() for name in mounted if name.startswith("."))


def test_driver_and_executors_see_the_same_files(services):
    for name in ("scheduler", "spark-connect", "spark-worker"):
        assert "data:/opt/tidegate" in services[name]["volumes"], name
    assert services["scheduler"]["environment"]["TIDEGATE_HOME"] == "/opt/tidegate"


def test_airflow_knows_every_command_setting_and_connection(services, tmp_path):
    environment = {
        name: VARIABLE.sub("a_b-c=", str(value)) for name, value in services["scheduler"]["environment"].items()
    }
    checks = [services[name]["healthcheck"]["test"] for name in ("dag-processor", "triggerer")]
    commands = [*(services[name]["command"] for name in AIRFLOW[1:]), *(check[2:] for check in checks)]
    answer = subprocess.run(
        [sys.executable, "-c", ASK],
        input=json.dumps([*commands, ["db", "migrate"]]),
        env={
            **environment,
            "AIRFLOW__CORE__PARALLELISM": "4",
            "AIRFLOW_HOME": str(tmp_path),
            "PATH": os.environ["PATH"],
        },
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert answer.returncode == 0, answer.stderr
    assert json.loads(answer.stdout.splitlines()[-1]) == {
        "spark": "sc://localhost:15002/;token=a_b-c%3D",
        "database": "postgresql+psycopg2://tidegate_runner:a_b-c%3D@postgres:5432/tidegate",
        "kafka": "kafka:9092",
    }


def test_the_driver_that_stays_up_is_reached_by_tasks_only_and_its_command_is_one(services):
    server = services["spark-connect"]
    assert server["network_mode"] == "service:scheduler"
    assert "ports" not in server
    connection = json.loads(services["scheduler"]["environment"]["AIRFLOW_CONN_SPARK_DEFAULT"])
    assert server["environment"] == {TOKEN: connection["password"]}
    assert server["entrypoint"] == ["python", "-m", connect_server.__name__]
    options = connect_server.parser().parse_args(server["command"])
    assert (options.master, options.port) == ("spark://spark-master:7077", connection["port"])
    settings = dict(setting.split("=", 1) for setting in options.conf)
    assert settings["spark.driver.host"] in services
    assert importlib.util.find_spec(settings["spark.python.daemon.module"])
    check = " ".join(server["healthcheck"]["test"])
    assert f"/dev/tcp/localhost/{connection['port']}" in check
    # The address by which the scheduler's own check finds it, seen from the network that both share.
    assert services["scheduler"]["healthcheck"]["test"][-1] in check


def test_tables_are_made_by_commands_that_exist(services):
    assert services["init"]["command"] == ["bash", "-c", "airflow db migrate && tidegate db upgrade"]
    [group] = [group for group in app.registered_groups if group.name == "db"]
    assert [command.callback.__name__ for command in group.typer_instance.registered_commands] == [
        "upgrade",
        "start",
        "stop",
        "status",
    ]


@pytest.mark.spark
@pytest.mark.parametrize("name", ["spark-master", "spark-worker"])
def test_spark_takes_the_options_it_is_given(services, name):
    program, main_class = services[name]["entrypoint"]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "JAVA_HOME": str(find_java())}
    executable = os.path.join(os.path.dirname(sys.executable), program)
    told = subprocess.run(
        [executable, main_class, "--help"], env=environment, capture_output=True, text=True, timeout=300
    )
    usage = told.stdout + told.stderr
    assert "Usage: " in usage
    words = [str(word) for word in services[name]["command"]]
    options = words[:-1] if len(words) % 2 else words
    assert all(f"{option} " in usage for option in options[::2])
    assert not any(fnmatch(word, "--*=*") for word in words)
    assert words[len(options) :] == (["spark://spark-master:7077"] if name == "spark-worker" else [])
