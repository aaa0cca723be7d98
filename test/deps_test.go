// The arrows between packages: the imports that each package may have.

// Package test holds the suites that look at the module as a whole.
package test

import (
	"bytes"
	"go/parser"
	"go/token"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/nfsrdma/nfsrdma/"

// floors are the folders from the ground up, each with the folders whose packages it may import
// from the same floor. Any other import is a fault.
var floors = []struct {
	folder string
	knows  []string
}{
	{"posixacl", nil},
	{"internal/clock", nil},
	{"internal/similar", nil},
	{"internal/tally", nil},
	{"internal/wait", nil},
	{"internal/lead", []string{"internal/tally", "internal/wait"}},
	{"xdr", []string{"posixacl"}},
	{"rnic", []string{"internal/clock", "internal/lead", "internal/tally", "internal/wait"}},
	{"chunks", []string{"xdr"}},
	{"rpcrdma", []string{"internal/lead", "chunks", "rnic", "xdr"}},
	{"transport", []string{"internal/clock", "internal/lead", "internal/tally", "internal/wait", "rpcrdma", "chunks", "rnic", "xdr"}},
	{"nfsserver", []string{"internal/tally", "internal/wait", "internal/similar", "posixacl", "transport", "rpcrdma", "chunks", "rnic", "xdr"}},
	{"nfsclient", []string{"internal/lead", "internal/tally", "internal/wait", "posixacl", "transport", "rpcrdma", "chunks", "rnic", "xdr"}},
	{"cmd", []string{"internal/similar", "internal/tally", "posixacl", "nfsserver", "nfsclient", "transport", "rpcrdma", "chunks", "rnic", "xdr"}},
	{"deploy", nil},
	{"test", []string{"posixacl", "cmd", "nfsserver", "nfsclient", "transport", "rpcrdma", "chunks", "rnic", "xdr"}},
}

// exactly lists packages that import these packages of this module and no others.
var exactly = map[string][]string{
	"rnic/iwarp/term":             nil,
	"rnic/iwarp/mpa":              {"rnic/internal/crc32c", "rnic/iwarp/term"},
	"rnic/iwarp/ddp":              {"rnic/iwarp/term"},
	"rnic/iwarp/rdmap":            {"rnic/iwarp/term"},
	"rnic/internal/crc32c":        nil,
	"rnic/internal/crcieee":       nil,
	"rnic/internal/rxwait":        {"internal/tally", "internal/wait"},
	"rnic/internal/stagsource":    nil,
	"rnic":                        {"internal/tally", "rnic/internal/stagsource"},
	"rnic/iwarp/core":             {"rnic", "rnic/iwarp/ddp", "rnic/iwarp/mpa", "rnic/iwarp/rdmap", "rnic/iwarp/term"},
	"rnic/iwarp":                  {"internal/lead", "internal/tally", "internal/wait", "rnic", "rnic/internal/rxwait", "rnic/iwarp/core", "rnic/iwarp/ddp", "rnic/iwarp/mpa", "rnic/iwarp/rdmap", "rnic/iwarp/term"},
	"rnic/rconn":                  {"rnic"},
	"rnic/roce/mad":               nil,
	"rnic/roce/packet":            {"rnic/internal/crcieee"},
	"rnic/roce/core":              {"internal/tally", "rnic", "rnic/roce/packet"},
	"rnic/roce/udp":               {"internal/tally", "rnic/internal/rxwait", "rnic/roce/packet"},
	"rnic/roce":                   {"internal/clock", "internal/tally", "rnic", "rnic/roce/cm", "rnic/roce/core", "rnic/roce/mad", "rnic/roce/packet", "rnic/roce/udp"},
	"rnic/roce/cm":                {"rnic/roce/mad", "rnic/roce/packet"},
	"internal/clock":              nil,
	"internal/wait":               nil,
	"internal/lead":               {"internal/tally", "internal/wait"},
	"internal/tally":              nil,
	"posixacl":                    nil,
	"xdr":                         nil,
	"xdr/oncrpc":                  {"xdr"},
	"xdr/nfs3":                    {"xdr"},
	"xdr/mount3":                  {"xdr"},
	"xdr/rpcbind":                 {"xdr"},
	"transport/gss":               {"transport", "xdr", "xdr/oncrpc"},
	"transport/portmap":           {"transport", "xdr", "xdr/rpcbind"},
	"nfsserver/nlm":               {"nfsserver", "rpcrdma/mem", "transport", "transport/portmap", "xdr", "xdr/nlm4", "xdr/nsm", "xdr/rpcbind"},
	"xdr/nlm4":                    {"xdr"},
	"xdr/nsm":                     {"xdr"},
	"xdr/nfsacl3":                 {"xdr", "xdr/nfs3"},
	"xdr/internal/xdrtest":        {"xdr"},
	"chunks":                      {"xdr"},
	"rpcrdma/mem":                 nil,
	"rpcrdma":                     {"chunks", "internal/lead", "rnic", "rpcrdma/mem", "xdr"},
	"transport/certs":             nil,
	"transport/internal/ktls":     nil,
	"nfsserver/exports":           {"internal/similar", "transport", "xdr/oncrpc"},
	"nfsserver/idmap":             nil,
	"nfsserver/perm":              {"nfsserver", "posixacl"},
	"nfsclient/internal/datapath": {"rpcrdma/mem", "xdr/nfs3"},
	"nfsclient/nlm":               {"transport", "xdr", "xdr/nfs3", "xdr/nlm4", "xdr/nsm"},
	"nfsclient/fusefs":            {"nfsclient", "nfsclient/fusefs/fuseloop", "nfsclient/internal/datapath", "nfsclient/nlm", "posixacl", "rnic", "transport", "xdr", "xdr/nfs3", "xdr/oncrpc"},
	claims:                        nil,
	machine:                       nil,
	must:                          nil,
	realm:                         {machine},

	"cmd/internal/audit":     {"nfsserver", "xdr/nfs3", "xdr/nfsacl3"},
	"cmd/internal/cli":       {"internal/similar"},
	"cmd/internal/child":     nil,
	"cmd/internal/ccache":    nil,
	"cmd/internal/logto":     nil,
	"cmd/internal/figures":   nil,
	"cmd/internal/top":       {"cmd/internal/control", "cmd/internal/figures", "cmd/internal/text"},
	"cmd/internal/control":   nil,
	"cmd/internal/protocols": {"xdr/mount3", "xdr/nfs3", "xdr/nfsacl3", "xdr/nlm4", "xdr/nsm", "xdr/rpcbind"},
	"cmd/internal/text":      {"nfsclient", "xdr/nfs3"},
	"cmd/internal/bench":     {"cmd/internal/child", "cmd/internal/text", "nfsclient", "rnic", "rnic/iwarp", "rnic/roce", "rnic/roce/packet", "rnic/roce/udp", "xdr/nfs3"},
	"cmd/internal/session":   {"cmd/internal/cli", "cmd/internal/portprobe", "cmd/internal/rights", "cmd/internal/secure", "cmd/internal/text", "nfsclient", "rnic", "transport", "xdr/nfs3", "xdr/oncrpc"},
	"cmd/internal/mountctl":  nil,
	"cmd/internal/mountopt":  {"cmd/internal/cli", "cmd/internal/secure", "internal/similar", "nfsclient", "rnic", "transport"},
	"cmd/internal/secure":    {"cmd/internal/ccache", "nfsclient", "transport", "transport/certs", "transport/gss", "transport/gss/krb5", "xdr/oncrpc"},
	"cmd/internal/verbs":     {"cmd/internal/bench", "cmd/internal/text", "cmd/internal/verbs/exchange", "rnic", "rnic/roce", "rnic/roce/packet"},
	"cmd/internal/listing":   {"cmd/internal/cli", "cmd/internal/session", "cmd/internal/text", "nfsclient", "xdr/nfs3"},

	"cmd/internal/verbs/exchange": nil,

	"cmd/nfsrdmad/volumes": {"cmd/nfsrdmad/program"},

	"cmd/oncrpcgen":                 {"cmd/oncrpcgen/internal/check", "cmd/oncrpcgen/internal/syntax", "cmd/oncrpcgen/internal/write"},
	"cmd/oncrpcgen/internal/syntax": nil,
	"cmd/oncrpcgen/internal/check":  {"cmd/oncrpcgen/internal/syntax"},
	"cmd/oncrpcgen/internal/sample": {"cmd/oncrpcgen/internal/check"},
	"cmd/oncrpcgen/internal/write":  {"cmd/oncrpcgen/internal/check", "cmd/oncrpcgen/internal/syntax"},

	"nfsclient/fusefs/fuseloop": {"internal/lead", "internal/tally", "internal/wait"},

	"nfsserver/osfs/internal/cred":      {"nfsserver"},
	"nfsserver/osfs/internal/eintr":     nil,
	"nfsserver/osfs/internal/inodegen":  nil,
	"nfsserver/osfs/internal/mountinfo": nil,
	"nfsserver/osfs/internal/uring":     nil,
}

// pure lists folders that turn bytes into bytes: they have no sockets, files, locks or contexts.
var pure = []string{"rnic/iwarp/term", "rnic/iwarp/mpa", "rnic/iwarp/ddp", "rnic/iwarp/rdmap", "rnic/roce/mad", "rnic/roce/packet", "posixacl", "xdr", "chunks", "cmd/internal/verbs/exchange"}

var impure = []string{"context", "net", "os", "os/exec", "sync", "sync/atomic", "syscall", "unsafe", "runtime", "golang.org/x/sys/unix"}

// only lists the folders that may import each dependency; tests are exempt.
var only = map[string][]string{
	"github.com/sirupsen/logrus":      {"cmd"},
	"github.com/rasky/go-xdr/":        {"xdr"},
	"github.com/vmware/go-nfs-client": {"nfsclient", "test"},
	"github.com/spf13/cobra":          {"cmd"},
	"github.com/prometheus/":          {"cmd"},
	"github.com/hanwen/go-fuse/":      {"nfsclient", "cmd"},
	"github.com/google/gopacket":      {"test"},
	"github.com/jcmturner/":           {"transport/gss/krb5"},
	"golang.org/x/crypto/":            {"transport/gss/krb5"},
}

// in reports whether a package of the module is in a folder or below it.
func in(pkg string, folders ...string) bool {
	return slices.ContainsFunc(folders, func(f string) bool { return pkg == f || strings.HasPrefix(pkg, f+"/") })
}

// aPackage is a package of the module, named without the module.
type aPackage struct {
	name    string
	cgo     bool
	ours    []string // imports from this module, named likewise
	foreign []string // all others
	tests   []string // imports of its tests from this module
}

func packages(t *testing.T) []aPackage {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-f", "{{.ImportPath}} {{len .CgoFiles}} {{join .Imports \" \"}} | {{join .TestImports \" \"}} {{join .XTestImports \" \"}}", module+"...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, &stderr)
	}
	var ps []aPackage
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		p := aPackage{name: strings.TrimPrefix(words[0], module), cgo: words[1] != "0"}
		bar := slices.Index(words, "|")
		for _, i := range words[bar+1:] {
			if name, ok := strings.CutPrefix(i, module); ok {
				p.tests = append(p.tests, name)
			}
		}
		for _, i := range words[2:bar] {
			if name, ok := strings.CutPrefix(i, module); ok {
				p.ours = append(p.ours, name)
			} else {
				p.foreign = append(p.foreign, i)
			}
		}
		ps = append(ps, p)
	}
	if len(ps) < len(exactly) {
		t.Fatalf("go list knows only %d packages", len(ps))
	}
	return ps
}

// Test packages that tests on every floor may import because they know nothing of our code: the
// catalogue of requirements, the needs of a test from its machine, conditions without which a test
// ends, and a Kerberos realm.
const (
	claims  = "test/conformance"
	machine = "test/machine"
	must    = "test/must"
	realm   = "test/machine/realm"
)

func TestArrows(t *testing.T) {
	for _, p := range packages(t) {
		at := slices.IndexFunc(floors, func(f struct {
			folder string
			knows  []string
		}) bool {
			return in(p.name, f.folder)
		})
		if at < 0 {
			t.Errorf("%s is on no floor of the house", p.name)
			continue
		}
		floor := floors[at]
		for _, i := range p.tests {
			if in(i, "test") && !slices.Contains([]string{claims, machine, must, realm}, i) && floor.folder != "test" {
				t.Errorf("a test of %s imports %s: of the suites it may know %s, %s, %s and %s only", p.name, i, claims, machine, must, realm)
			}
		}
		for _, i := range p.ours {
			if !in(i, floor.folder) && !in(i, floor.knows...) {
				t.Errorf("%s imports %s: %s may know %q only", p.name, i, floor.folder, floor.knows)
			}
		}
	}
}

// TestCommandsAreOnTop: nothing outside of cmd and test imports a command or a part of one, in no
// module of the repository and in no test.
func TestCommandsAreOnTop(t *testing.T) {
	fset, seen := token.NewFileSet(), map[string]bool{}
	eachFile(t, func(file string, src []byte) {
		folder, _, _ := strings.Cut(file, "/")
		seen[folder] = true
		if folder == "cmd" || folder == "test" {
			return
		}
		f, err := parser.ParseFile(fset, file, src, parser.ImportsOnly)
		if err != nil {
			t.Error(err)
			return
		}
		for _, i := range f.Imports {
			if name, ours := strings.CutPrefix(strings.Trim(i.Path.Value, `"`), module); ours && in(name, "cmd") {
				t.Errorf("%s imports %s: only cmd and test may import commands", file, name)
			}
		}
	})
	for _, folder := range []string{"cmd", "deploy", "nfsclient", "nfsserver", "transport"} {
		if !seen[folder] {
			t.Errorf("no file of %s was read", folder)
		}
	}
}

func TestExactImports(t *testing.T) {
	found := 0
	for _, p := range packages(t) {
		want, ok := exactly[p.name]
		if !ok {
			continue
		}
		found++
		if !slices.Equal(slices.Sorted(slices.Values(p.ours)), want) {
			t.Errorf("%s imports %q, want %q", p.name, p.ours, want)
		}
	}
	if found != len(exactly) {
		t.Errorf("%d of %d packages found", found, len(exactly))
	}
}

func TestPure(t *testing.T) {
	for _, p := range packages(t) {
		if !in(p.name, pure...) {
			continue
		}
		for _, i := range p.foreign {
			if slices.Contains(impure, i) {
				t.Errorf("%s imports %s: codecs are pure", p.name, i)
			}
		}
	}
}

// TestCoreDoesNoIO: the protocol core has a lock where its halves meet, but no socket, clock or
// goroutine.
func TestCoreDoesNoIO(t *testing.T) {
	for _, p := range packages(t) {
		if p.name != "rnic/iwarp/core" && p.name != "rnic/roce/core" && p.name != "rnic/roce/cm" {
			continue
		}
		for _, i := range p.foreign {
			if i == "time" || slices.Contains(impure, i) && i != "sync" && i != "sync/atomic" {
				t.Errorf("%s imports %s", p.name, i)
			}
		}
	}
}

// TestProviderIsChosenAbove: only packages that open devices know a provider; the verbs and the
// code above them do not.
func TestProviderIsChosenAbove(t *testing.T) {
	for _, p := range packages(t) {
		if p.name != "rnic" && p.name != "rnic/rconn" && !in(p.name, "rpcrdma", "transport", "chunks", "xdr") {
			continue
		}
		for _, i := range p.ours {
			if in(i, "rnic/iwarp", "rnic/roce") {
				t.Errorf("%s imports %s", p.name, i)
			}
		}
	}
}

func TestDependencies(t *testing.T) {
	for _, p := range packages(t) {
		if p.cgo {
			t.Errorf("%s uses cgo", p.name)
		}
		for dep, folders := range only {
			for _, i := range p.foreign {
				if strings.HasPrefix(i, dep) && !in(p.name, folders...) {
					t.Errorf("%s imports %s, which is for %q", p.name, i, folders)
				}
			}
		}
	}
}
