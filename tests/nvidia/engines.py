"""Artefacts with engines that nobody has built: manifests are real, plans are a few bytes."""

import shutil

from attendant.engine_manifest import EVERY, Engine, EngineManifest, Platform, Profile, stem
from attendant.manifest import Manifest, sha256_of
from export.tensorrt.build import sources_of
from export.tensorrt.profiles import profiles_of
from serving.runtime.tensorrt.known_engines import remember_engines

H100 = Platform(tensorrt="11.4.0", cuda="13.3", driver="590.1", gpu="NVIDIA H100 80GB HBM3", capability="9.0")


def with_engines(folder, out, graphs=None, apart=False, **said):
    """A copy of an artefact with engines of some graphs, all if none is named; phases may have an engine each."""
    shutil.copytree(folder, out)
    manifest = Manifest.read(out)
    wanted = [signature for signature in manifest.graphs if graphs is None or signature.name in graphs]
    engines = [
        _engine(out, manifest, signature, {**said, "phase": phase, "profiles": profiles})
        for signature in wanted
        for phase, profiles in _phases(signature, apart)
    ]
    command = f"attendant export tensorrt {out}"
    described = EngineManifest(name=manifest.name, platform=H100, engines=tuple(engines), command=command)
    described.write(out)
    remember_engines(out)
    return described


def _phases(signature, apart):
    profiles = profiles_of(signature) or (Profile(name=EVERY, shapes={}),)
    if apart and len(profiles) == 2:
        return [(profile.name, (profile,)) for profile in profiles]
    return [("", profiles)]


def _engine(out, manifest, signature, said):
    path = out / f"{stem(signature.name, said['phase'])}.plan"
    path.write_bytes(f"the engine of {path.stem}".encode())
    aliases = {output: past for output, past in signature.aliases.items() if past.startswith("self_")}
    source = manifest.file_for(signature.name, "tensorrt")
    return Engine(
        graph=signature.name,
        sha256=sha256_of(path),
        source=source,
        built_from=sources_of(manifest, out, source),
        aliases=aliases,
        **said,
    )
