// Package conformance is the catalogue of requirements in RFC 5040, 5041, 5044 (with 6581) and 8166
// (with 8267, 8797 and 8167), in RFC 2203, 4121, 5403 and 9289, and in the InfiniBand architecture
// for its unreliable services, one row each. Tests use it to declare which rows they prove.
//
// A test that would fail if a rule were broken declares that with [Proves]. If it passes and
// NFSRDMA_CLAIMS names a directory, the claim is written there. The command in cmd/conformance then
// compares all claims of a run with the rows.
package conformance

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// Dir is the environment variable with the directory of the claims.
const Dir = "NFSRDMA_CLAIMS"

const module = "github.com/nfsrdma/nfsrdma/"

var writing sync.Mutex

// Proves declares that t proves these rows: t fails if one of the rows is violated. The claim
// counts if t ends without failing or being skipped. An unknown row fails t.
func Proves(t testing.TB, ids ...string) {
	t.Helper()
	if len(ids) == 0 {
		t.Fatal("no row is claimed")
	}
	for _, id := range ids {
		if _, ok := byID()[id]; !ok {
			t.Fatalf("the catalogue has no row %s", id)
		}
	}
	dir := os.Getenv(Dir)
	if dir == "" {
		return
	}
	name, _, _ := strings.Cut(t.Name(), "/")
	pkg := caller()
	t.Cleanup(func() {
		if t.Failed() || t.Skipped() {
			return
		}
		if err := record(dir, pkg, name, ids); err != nil {
			t.Errorf("claims: %v", err)
		}
	})
}

// ProvesNamed calls Proves for the rows in a subtest's name, if any.
func ProvesNamed(t testing.TB) {
	t.Helper()
	if ids := In(t.Name()); len(ids) > 0 {
		Proves(t, ids...)
	}
}

var anID = regexp.MustCompile(`R[0-9]{4}-[0-9]{3}|IBU-[0-9]{3}`)

// In returns the row ids in a text.
func In(s string) []string { return anID.FindAllString(s, -1) }

// caller returns the package, relative to the module, of the first function on the stack outside
// Proves.
func caller() string {
	pcs := make([]uintptr, 16)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	for {
		f, more := frames.Next()
		name, ok := strings.CutPrefix(f.Function, module)
		if ok && !strings.HasPrefix(name, "test/conformance.Proves") {
			slash := strings.LastIndexByte(name, '/') + 1
			last, _, _ := strings.Cut(name[slash:], ".")
			return strings.TrimSuffix(name[:slash]+last, "_test")
		}
		if !more {
			return "?"
		}
	}
}

// record appends claims to this process's file.
func record(dir, pkg, test string, ids []string) error {
	writing.Lock()
	defer writing.Unlock()
	name := fmt.Sprintf("%s.%d", filepath.Base(os.Args[0]), os.Getpid())
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	var lines strings.Builder
	for _, id := range ids {
		fmt.Fprintf(&lines, "%s\t%s\t%s\n", id, pkg, test)
	}
	_, err = f.WriteString(lines.String())
	if e := f.Close(); err == nil {
		err = e
	}
	return err
}
