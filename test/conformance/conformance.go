// Package conformance is the catalogue of what RFC 5040, 5041, 5044 (with 6581)
// and 8166 (with 8267, 8797 and 8167) ask for, and the InfiniBand architecture of its unreliable
// services, a row for each requirement, and the way in which a test says which rows it proves.
//
// A test that would fail if a rule were broken says so with [Proves]. When it has
// passed, and NFSRDMA_CLAIMS names a directory, the claim is written there; the
// command in cmd/conformance then holds all claims of a run against the rows.
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

// Dir is the environment variable that names the directory of the claims.
const Dir = "NFSRDMA_CLAIMS"

const module = "github.com/nfsrdma/nfsrdma/"

var writing sync.Mutex

// Proves says that t proves these rows: it fails when one of them is broken. The
// claim counts once t has ended and has neither failed nor been skipped. A row
// that the catalogue does not have is a failure of t.
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

// ProvesNamed is Proves for the rows in the name of a subtest, if it names any.
func ProvesNamed(t testing.TB) {
	t.Helper()
	if ids := In(t.Name()); len(ids) > 0 {
		Proves(t, ids...)
	}
}

var anID = regexp.MustCompile(`R[0-9]{4}-[0-9]{3}|IBU-[0-9]{3}`)

// In finds the ids of rows in a text.
func In(s string) []string { return anID.FindAllString(s, -1) }

// caller is the package, from the root of the module, of the first function on the
// stack that does not hand on a claim.
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

// record appends claims to the file of this process.
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
