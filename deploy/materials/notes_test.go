// The release notes that deploy/notes extracts from the changelog.

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/must"
)

// TestReleaseNotes: a version's notes are its section, complete and without its heading, with links
// to that version's files. Without a version they are the unreleased section. An unknown version is
// an error.
func TestReleaseNotes(t *testing.T) {
	dir := t.TempDir()
	script, err := os.ReadFile("../notes")
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	must.Succeed(t, os.Mkdir(filepath.Join(dir, "deploy"), 0o755))
	log := "# Changelog\n\nWhat users notice.\n\n## Unreleased\n\n### Added\n\n- new ([docs/admin.md](docs/admin.md#x)).\n\n" +
		"## 1.10.0 (2026-02-03)\n\n- ten\n\n- [security](SECURITY.md)\n\n## 1.1.0 (2026-01-02)\n\n- one\n\n## 1.0.0\n\n"
	for name, text := range map[string]string{"deploy/notes": string(script), "CHANGELOG.md": log} {
		must.Succeed(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755))
	}
	const blob = "https://github.com/nfsrdma/nfsrdma/blob/"
	for version, want := range map[string]string{
		"":       "### Added\n\n- new ([docs/admin.md](" + blob + "main/docs/admin.md#x)).\n",
		"v1.1.0": "- one\n",
		"1.10.0": "- ten\n\n- [security](" + blob + "v1.10.0/SECURITY.md)\n",
		"1.0.0":  "", // the section is empty
		"1.1":    "",
	} {
		out, err := exec.Command(filepath.Join(dir, "deploy/notes"), strings.Fields(version)...).Output()
		if string(out) != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v; want %q", version, out, err, want)
		}
	}
	// This repository's changelog has a section for each release; the unreleased section may be
	// empty.
	released, err := os.ReadFile("../../CHANGELOG.md")
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	newest := regexp.MustCompile(`(?m)^## ([0-9.]+) \([0-9]{4}-[0-9]{2}-[0-9]{2}\)$`).FindSubmatch(released)
	if newest == nil {
		t.Fatal("CHANGELOG.md has no release")
	}
	if out, err := exec.Command("../notes", string(newest[1])).Output(); err != nil || !strings.Contains(string(out), "### ") {
		t.Errorf("%s: %v: %.200s", newest[1], err, out)
	}
}
