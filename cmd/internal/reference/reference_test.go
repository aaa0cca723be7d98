// Extraction from code: messages with texts and fields, JSON keys, and values of constants.

package reference

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/must"
)

// parsed returns a module loaded from the given files.
func parsed(t *testing.T, files map[string]string) *module {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		must.Succeed(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.Succeed(t, os.WriteFile(path, []byte(text), 0o644))
	}
	m, err := load(root)
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	return m
}

func TestMessages(t *testing.T) {
	m := parsed(t, map[string]string{"a/a.go": `package a
func (s *S) warn(c *Call, cause Cause) {
	fields := []any{"peer", c.Remote}
	if c.More {
		fields = append(fields, "more", 1)
	}
	s.log.Warn("refused: "+cause, fields...)
}
func (s *S) calls() {
	s.warn(nil, "too late")
	s.warn(nil, "too early")
	if line := fit(3); line != "" {
		logrus.Warn(line)
	}
	s.log.Info("mount", burst, "dir", dir, "vers", 3)
	logrus.WithField("export", x).Errorf("%s: not %d%% served:\n%v", a, b, err)
	logrus.Error(err)
	fmt.Errorf("no message")
}
func fit(n int) string {
	if n > 2 {
		return fmt.Sprintf("room for %d", n)
	}
	return ""
}
`, "a/a_test.go": `package a
func test() { logrus.Info("of a test") }
`, "nfsclient/nlm/a.go": `package nlm
func (l *Locks) lose(n int) {
	l.log(fmt.Sprintf("lost: %d", n))
	l.count(n)
}
`})
	want := []message{
		{"info", "mount", []string{"dir", "vers"}},
		{"warning", "refused: too early", []string{"peer", "more"}},
		{"warning", "refused: too late", []string{"peer", "more"}},
		{"warning", "room for …", nil},
		{"error", "…: not …% served: …", []string{"export"}},
	}
	if got := m.dirs["a"].messages(); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	want = []message{{"notice", "lost: …", nil}}
	if got := m.dirs["nfsclient/nlm"].messages(); !reflect.DeepEqual(got, want) {
		t.Errorf("a function that logs: got %q, want %q", got, want)
	}
}

func TestKeys(t *testing.T) {
	m := parsed(t, map[string]string{
		"a/a.go": `package a
import ("time"; other "github.com/nfsrdma/nfsrdma/b")
type R struct {
	base
	hidden int
	At time.Time ` + "`json:\"at,omitempty\"`" + ` // when
	Left []other.Item ` + "`json:\"left\"`" + ` // one side
	Right *other.Item ` + "`json:\"right\"`" + ` // the other
	Not int ` + "`json:\"-\"`" + `
}
type base struct {
	Count map[string]uint64 // by name
}
type Silent struct { N int }
`,
		"b/b.go": `package b
type Item struct {
	// State is how
	// it is.
	State State
}
type State int
func (s State) MarshalText() ([]byte, error) { return nil, nil }
`})
	w := &writer{}
	if err := (&jsonTable{w: w, m: m, seen: map[string]string{}}).fields(m.dirs["a"], "R", ""); err != nil {
		t.Fatalf("fields: %v", err)
	}
	want := []string{
		"| `Count.NAME` | object of numbers | by name |",
		"| `at` | time, *optional* | when |",
		"| `left[]` | array of objects | one side |",
		"| `left[].State` | string | how it is |",
		"| `right` | object or null | the other; keys as in `left[]` |",
	}
	if got := strings.Split(strings.TrimSpace(w.String()), "\n"); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	err := (&jsonTable{w: w, m: m, seen: map[string]string{}}).fields(m.dirs["a"], "Silent", "")
	if err == nil || !strings.Contains(err.Error(), "a.N has no comment") {
		t.Errorf("a field without a comment: %v", err)
	}
}

func TestConstants(t *testing.T) {
	m := parsed(t, map[string]string{
		"a/a.go": `package a
import ("time"; "github.com/nfsrdma/nfsrdma/b"; "strings")
const (
	size = b.Half * 2
	wait = 90 * time.Second
	part = 3 << 9
)
func f() string { return strings.ToLower("") }
`, "b/b.go": "package b\nconst Half = 1 << 20\n"})
	c := newConstants(m)
	for _, test := range []struct{ name, unit, want string }{
		{"size", "bytes", "2 MiB"}, {"size", "", "2097152"}, {"wait", "ns", "1m30s"}, {"part", "bytes", "1536 bytes"},
	} {
		n, err := c.value("a", test.name)
		if err != nil {
			t.Fatalf("value: %v", err)
		}
		if got := quantity(n, test.unit); got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
	if _, err := c.value("a", "absent"); err == nil {
		t.Error("a constant that is not there has a value")
	}
}
