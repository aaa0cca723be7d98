// The catalogue is in order, and the check finds its faults.

package conformance

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/must"
)

func TestCatalogue(t *testing.T) {
	id := regexp.MustCompile(`^(R(2203|4121|5403|9289|5040|5041|5044|6581|8166|8167|8267|8797)|IBU)-[0-9]{3}$`)
	levels := []string{"MUST", "MUST-NOT", "SHOULD", "SHOULD-NOT", "MAY", "FACT"}
	for _, r := range Catalogue() {
		if !id.MatchString(r.ID) || !slices.Contains(levels, r.Level) || r.Requirement == "" {
			t.Errorf("%+v", r)
		}
	}
	if n := len(Catalogue()); n != 956+255+66+50+9+68 {
		t.Errorf("%d rows", n)
	}
	for _, f := range Faults(Catalogue(), Exceptions(), nil) {
		if !strings.Contains(f, "neither proven nor excepted") {
			t.Error(f)
		}
	}
}

func TestFaults(t *testing.T) {
	rows := []Row{{ID: "R1", Level: "MUST"}, {ID: "R2", Level: "FACT"}, {ID: "R3", Level: "MAY"}, {ID: "R4", Level: "MUST-NOT"}}
	good := Claims{"R1": {"a TestA"}, "R2": {"a TestA"}}
	why := map[string]string{"R4": "is for hardware alone"}
	if f := Faults(rows, why, good); len(f) != 0 {
		t.Error(f)
	}
	for name, f := range map[string][]string{
		"unproven":          Faults(rows, why, Claims{"R1": {"a TestA"}}),
		"proven, excepted":  Faults(rows, why, Claims{"R1": {"a TestA"}, "R2": {"a TestA"}, "R4": {"a TestA"}}),
		"no reason":         Faults(rows, map[string]string{"R4": "no"}, good),
		"unknown exception": Faults(rows, map[string]string{"R4": "is for hardware alone", "R5": "is for hardware alone"}, good),
		"unknown claim":     Faults(rows, why, Claims{"R1": {"a TestA"}, "R2": {"a TestA"}, "R9": {"a TestA"}}),
		"twice":             Faults(append(rows, rows[2]), why, good),
	} {
		if len(f) != 1 {
			t.Errorf("%s: %q", name, f)
		}
	}
}

// TestClaims: a claim is written only when its test has passed.
func TestClaims(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(Dir, dir)
	t.Run("passes", func(t *testing.T) { Proves(t, "R5044-001", "R5044-003") })
	t.Run("names R5040-001 and R5041-002", func(t *testing.T) { ProvesNamed(t) })
	t.Run("names none", func(t *testing.T) { ProvesNamed(t) })
	t.Run("is skipped", func(t *testing.T) {
		Proves(t, "R5044-004")
		t.Skip("to see that it claims nothing")
	})
	f := &failing{TB: t}
	Proves(f, "R5044-005")
	f.end()
	got, err := ReadClaims(dir)
	if err != nil || len(got) != 4 {
		t.Errorf("%v, %v", got, err)
	}
	for _, id := range []string{"R5044-001", "R5044-003", "R5040-001", "R5041-002"} {
		if !slices.Equal(got[id], []string{"test/conformance TestClaims"}) {
			t.Errorf("%s: %q", id, got[id])
		}
	}
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "bad"), []byte("R5044-001\n"), 0o600))
	if _, err := ReadClaims(dir); err == nil {
		t.Error("half a claim was read")
	}
}

// failing is a test that always reports a failure. It ends when the outer test calls end.
type failing struct {
	testing.TB
	cleanup func()
	fatal   bool
}

func (f *failing) Failed() bool          { return true }
func (f *failing) Cleanup(c func())      { f.cleanup = c }
func (f *failing) Fatal(...any)          { f.fatal = true; panic(f) }
func (f *failing) Fatalf(string, ...any) { f.fatal = true; panic(f) }

func (f *failing) end() {
	if f.cleanup != nil {
		f.cleanup()
	}
}

func TestUnknownRow(t *testing.T) {
	for _, ids := range [][]string{{"R5044-999"}, {}} {
		f := &failing{TB: t}
		func() {
			defer func() { _ = recover() }()
			Proves(f, ids...)
		}()
		if !f.fatal {
			t.Errorf("%q was taken", ids)
		}
	}
}

func TestDocument(t *testing.T) {
	rows := []Row{
		{"R5044-001", "1", "MUST", "both", "a | b", "see"},
		{"R5044-002", "2", "FACT", "both", "c", "see"},
		{"R5044-003", "3", "MAY", "both", "d", "see"},
	}
	got := string(Document(rows, map[string]string{"R5044-002": "is for hardware alone"}, Claims{"R5044-001": {"a TestA", "b TestB"}}))
	for _, want := range []string{
		"| [5044](#rfc-5044) | 2 | 1 | 1 | 1 | 0 |",
		`| R5044-001 | 1 | MUST | a \| b | a TestA<br>b TestB |`,
		"| R5044-002 | 2 | FACT | c | is for hardware alone |",
		"| R5044-003 | 3 | MAY | d | see |",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no line %q in\n%s", want, got)
		}
	}
}
