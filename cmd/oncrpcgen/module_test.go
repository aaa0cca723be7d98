// A module with generated packages, whose program reads and writes messages.

package main

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"go/format"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/cmd/oncrpcgen/internal/check"
	"github.com/nfsrdma/nfsrdma/cmd/oncrpcgen/internal/sample"
	"github.com/nfsrdma/nfsrdma/cmd/oncrpcgen/internal/syntax"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// constants has, by file, the constants that the file takes from headers.
var constants = map[string][]string{"nlm_prot": {"-D", "LM_MAXSTRLEN=1024", "-D", "MAXNAMELEN=1025"}}

// A module is a temporary Go module that uses packages from this repository.
type module struct {
	dir     string
	imports []string
	types   []string // rows of the driver's table of types
	input   bytes.Buffer
	want    []string
}

// newModule makes a module with the same requirements as this repository's.
func newModule(t *testing.T) *module {
	root, err := filepath.Abs("../..")
	must.Succeed(t, err)
	m := &module{dir: t.TempDir()}
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	must.Succeed(t, err)
	sum, err := os.ReadFile(filepath.Join(root, "go.sum"))
	must.Succeed(t, err)
	_, rest, _ := strings.Cut(string(mod), "\n")
	text := "module foreign\n" + rest + "\nrequire github.com/nfsrdma/nfsrdma v0.0.0\nreplace github.com/nfsrdma/nfsrdma => " + root + "\n"
	must.Succeed(t, os.WriteFile(filepath.Join(m.dir, "go.mod"), []byte(text), 0o666), os.WriteFile(filepath.Join(m.dir, "go.sum"), sum, 0o666))
	return m
}

// add generates the code of a file, and random messages.
func (m *module) add(t *testing.T, file string, r *rand.Rand) {
	name := strings.TrimSuffix(filepath.Base(file), ".x")
	dir := filepath.Join(m.dir, name)
	must.Succeed(t, os.Mkdir(dir, 0o777))
	c, err := parseCommand(append(slices.Clone(constants[name]), "-package", name, "-o", filepath.Join(dir, name+".go"), file))
	must.Succeed(t, err)
	code, err := c.generate()
	if err != nil {
		t.Errorf("%s: %v", file, err)
		return
	}
	formatted, err := format.Source(code)
	must.Succeed(t, err, os.WriteFile(c.out, code, 0o666))
	if !bytes.Equal(code, formatted) {
		t.Errorf("%s: not as gofmt wants it", file)
	}
	m.imports = append(m.imports, name)
	src, err := os.ReadFile(file)
	must.Succeed(t, err)
	tree, err := syntax.Parse(file, src, syntax.Options{Defines: c.defines, Include: os.ReadFile})
	must.Succeed(t, err)
	checked, err := check.Check(tree, c.check)
	must.Succeed(t, err)
	for _, u := range checked.Types {
		if u.Kind == check.Alias {
			continue
		}
		m.types = append(m.types, fmt.Sprintf("func() message { return new(%s.%s) }", name, u.Name))
		for range 20 {
			m.message(sample.Append(nil, r, u), r)
		}
	}
}

// message adds a message of the latest type to the input twice. The unchanged one must come back,
// and the changed one may be invalid.
func (m *module) message(b []byte, r *rand.Rand) {
	fmt.Fprintf(&m.input, "%d %x\n", len(m.types)-1, b)
	m.want = append(m.want, hex.EncodeToString(b))
	b = slices.Clone(b)
	for range min(2, len(b)) {
		b[r.IntN(len(b))] = byte(r.Uint32())
	}
	fmt.Fprintf(&m.input, "%d %x\n", len(m.types)-1, b[:r.IntN(len(b)+1)])
	m.want = append(m.want, "*")
}

// driver is a program that decodes the lines of the input, and writes the messages encoded again.
const driver = `package main

import (
	"bufio"
	"fmt"
	"os"

	"github.com/nfsrdma/nfsrdma/xdr"
)

type message interface {
	xdr.Marshaler
	xdr.Unmarshaler
}

func main() {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var n int
		var b []byte
		fmt.Sscanf(in.Text(), "%d %x", &n, &b)
		d, m := xdr.NewDecoder(b), types[n]()
		m.DecodeXDR(d)
		e := xdr.NewEncoder(nil)
		if m.EncodeXDR(e); d.Err() != nil || d.Remaining() > 0 {
			fmt.Println(d.Err(), d.Remaining())
			continue
		}
		fmt.Printf("%x\n", e.Bytes())
	}
}
`

// run compiles the packages with the driver, and returns its output.
func (m *module) run(t *testing.T) []string {
	var table strings.Builder
	table.WriteString("package main\n\nimport (\n")
	for _, i := range m.imports {
		fmt.Fprintf(&table, "\t%q\n", "foreign/"+i)
	}
	fmt.Fprintf(&table, ")\n\nvar types = []func() message{\n%s,\n}\n", strings.Join(m.types, ",\n"))
	must.Succeed(t, os.WriteFile(filepath.Join(m.dir, "main.go"), []byte(driver), 0o666), os.WriteFile(filepath.Join(m.dir, "types.go"), []byte(table.String()), 0o666))
	for _, args := range [][]string{{"build", "-mod=mod", "-o", "driver", "."}, {"vet", "-mod=mod", "./..."}} {
		cmd := exec.Command("go", args...)
		cmd.Dir, cmd.Env = m.dir, append(os.Environ(), "GOFLAGS=", "GOWORK=off")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", args[0], err, out)
		}
	}
	cmd := exec.Command(filepath.Join(m.dir, "driver"))
	cmd.Stdin = &m.input
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("the driver: %v\n%s", err, &stderr)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

// check runs the driver, and compares its output with the messages added.
func (m *module) check(t *testing.T) {
	got := m.run(t)
	must.Equal(t, "messages", len(got), len(m.want))
	for i, want := range m.want {
		if want != "*" && got[i] != want {
			t.Errorf("message %d: got %s, want %s", i, got[i], want)
		}
	}
	t.Logf("%d packages, %d types, %d messages", len(m.imports), len(m.types), len(got))
}
