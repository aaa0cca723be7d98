// Command conformance compares the claims from a test run with the catalogue. It fails if a
// mandatory row is neither proven nor excepted, or if docs/conformance.md differs from the run.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nfsrdma/nfsrdma/test/conformance"
)

func main() {
	claims := flag.String("claims", "", "directory that a run of the tests with "+conformance.Dir+" has filled; without, the tests are run")
	write := flag.Bool("write", false, "write docs/conformance.md")
	flag.Parse()
	if err := run(*claims, *write); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(dir string, write bool) error {
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return fmt.Errorf("where the module is: %w", err)
	}
	page := filepath.Join(strings.TrimSpace(string(root)), "docs", "conformance.md")
	if dir == "" {
		if dir, err = os.MkdirTemp("", "claims"); err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		if err := test(filepath.Dir(filepath.Dir(page)), dir); err != nil {
			return err
		}
	}
	claims, err := conformance.ReadClaims(dir)
	if err != nil {
		return err
	}
	rows, exceptions := conformance.Catalogue(), conformance.Exceptions()
	faults := conformance.Faults(rows, exceptions, claims)
	want := conformance.Document(rows, exceptions, claims)
	if write {
		if err := os.MkdirAll(filepath.Dir(page), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(page, want, 0o644); err != nil {
			return err
		}
	} else if got, err := os.ReadFile(page); err != nil || !bytes.Equal(got, want) {
		faults = append(faults, stale(got, want))
	}
	if len(faults) > 0 {
		return fmt.Errorf("%s\n%d faults", strings.Join(faults, "\n"), len(faults))
	}
	return nil
}

// test runs all tests of the module, which write their claims to dir.
func test(root, dir string) error {
	cmd := exec.Command("go", "test", "./...")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), conformance.Dir+"="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go test: %w\n%s", err, out)
	}
	return nil
}

// stale shows the first difference between the page and the run, and the number of lines that the
// page lacks.
func stale(got, want []byte) string {
	g, w := strings.Split(string(got), "\n"), strings.Split(string(want), "\n")
	i := 0
	for i < len(g) && i < len(w) && g[i] == w[i] {
		i++
	}
	line := func(s []string) string {
		if i < len(s) {
			return s[i]
		}
		return "(the end)"
	}
	lacks := 0
	for _, l := range w {
		if !slices.Contains(g, l) {
			lacks++
		}
	}
	return fmt.Sprintf("docs/conformance.md:%d is stale (it lacks %d lines of the run), write it anew with -write\n  it says  %s\n  the run  %s",
		i+1, lacks, line(g), line(w))
}
