// The flags that say what callers may do: the resulting Squash, and the lines printed at the start.

package program

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/spf13/pflag"
)

// trusted returns the Squash that results from the flags.
func trusted(t *testing.T, base nfsserver.Squash, args ...string) (trust, nfsserver.Squash) {
	t.Helper()
	var m trust
	f := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	m.flags(f)
	if err := f.Parse(args); err != nil {
		t.Fatalf("Parse: %v", err)
	}
	return m, m.apply(base)
}

func TestTrustFlags(t *testing.T) {
	for args, want := range map[string]nfsserver.Squash{
		"":                           {},
		"--root-squash":              {},
		"--root-squash=false":        {NoRootSquash: true},
		"--no-root-squash":           {NoRootSquash: true},
		"--trust-local":              {TrustLocal: true},
		"--secure":                   {ReservedPort: true},
		"--secure=0 --trust-local=0": {},
	} {
		_, got := trusted(t, nfsserver.Squash{}, strings.Fields(args)...)
		if got.NoRootSquash != want.NoRootSquash || got.TrustLocal != want.TrustLocal || got.ReservedPort != want.ReservedPort || got.All {
			t.Errorf("%q: %+v", args, got)
		}
	}
}

// TestHandleKey: directories need a stored key, unless a flag allows a temporary one; memory needs
// none.
func TestHandleKey(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	must.Succeed(t, os.WriteFile(file, nil, 0o600))
	var none [nfsserver.KeySize]byte
	for _, c := range []struct {
		o       options
		lasting bool
		kept    bool
		fails   bool
	}{
		{options{stateDir: filepath.Join(dir, "state")}, true, true, false},
		{options{stateDir: filepath.Join(dir, "state"), ephemeral: true}, true, false, false},
		{options{stateDir: filepath.Join(dir, "state")}, false, false, false},
		{options{stateDir: file}, true, false, true},
		{options{stateDir: file}, false, false, false},
		{options{stateDir: file, ephemeral: true}, true, false, false},
	} {
		key, err := handleKey(&c.o, c.lasting)
		if (err != nil) != c.fails || (key != none) != c.kept {
			t.Errorf("%+v: %x, %v", c, key, err)
		}
	}
	t.Setenv("XDG_STATE_HOME", "")
	t.Setenv("HOME", "")
	if os.Geteuid() != 0 {
		if _, err := handleKey(&options{}, true); err == nil || !strings.Contains(err.Error(), "--state-dir") {
			t.Errorf("without a home: %v", err)
		}
	}
}

// TestTrustIsTold: the server prints one line about callers' rights, and a warning if other
// machines can call.
func TestTrustIsTold(t *testing.T) {
	here := &nfsserver.Service{TCPAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}}
	there := &nfsserver.Service{RDMAAddr: &net.TCPAddr{IP: net.IPv6unspecified}}
	all := nfsserver.Squash{All: true, UID: 77}
	for _, c := range []struct {
		args    string
		base    nfsserver.Squash
		at      *nfsserver.Service
		line    string
		warning string
	}{
		{"", nfsserver.Squash{}, here, "callers: on this machine who the kernel says they are; root acts as nobody", ""},
		{"--no-root-squash", nfsserver.Squash{}, here, "callers: on this machine who the kernel says they are; root is root", ""},
		{"--trust-local", nfsserver.Squash{}, here, "callers: on this machine whoever they say they are; root acts as nobody", ""},
		{"", nfsserver.Squash{}, there, "from other machines whoever they say they are; root acts as nobody", "any user but root"},
		{"--no-root-squash", nfsserver.Squash{}, there, "from other machines whoever they say they are; root is root", "root included"},
		{"--secure", nfsserver.Squash{}, there, "over TCP only from ports below 1024", "any user but root"},
		{"", all, here, "callers: only root and uid 77 of this machine are let in, and act as uid 77", ""},
		{"", all, there, "all act as uid 77; on this machine only root and uid 77 are let in", "acts as uid 77"},
		{"--trust-local", all, here, "callers: all act as uid 77", ""},
	} {
		m, q := trusted(t, c.base, strings.Fields(c.args)...)
		if got := m.line(&q, c.at, &exportSet{o: &options{}}); !strings.Contains(got, c.line) || strings.Contains(got, "\n") {
			t.Errorf("%q: %q", c.args, got)
		}
		got := m.warning(&q, c.at)
		if (got == "") != (c.warning == "") || !strings.Contains(got, c.warning) {
			t.Errorf("%q warns %q", c.args, got)
		}
	}
}

// TestTrustOfAFile: with an exports file, the file decides how root is mapped, and no flag does.
func TestTrustOfAFile(t *testing.T) {
	here := &nfsserver.Service{TCPAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}}
	fixed := []nfsserver.Export{{Name: "/x"}}
	for _, c := range []struct {
		args string
		base nfsserver.Squash
		set  *exportSet
		want string
	}{
		{"", nfsserver.Squash{}, &exportSet{o: &options{}, file: "/e"}, "; root, and who else is squashed, acts as /e says"},
		{"--no-root-squash", nfsserver.Squash{}, &exportSet{o: &options{}, file: "/e"}, "; root, and who else is squashed, acts as /e says"},
		{"", nfsserver.Squash{}, &exportSet{o: &options{}, file: "/e", fixed: fixed}, "; root acts as nobody in what the command line exports, elsewhere as /e says"},
		{"--no-root-squash", nfsserver.Squash{}, &exportSet{o: &options{}, file: "/e", fixed: fixed}, "; root is root in what the command line exports, elsewhere as /e says"},
		{"", nfsserver.Squash{}, &exportSet{o: &options{}, fixed: fixed}, "; root acts as nobody"},
		{"", nfsserver.Squash{All: true, UID: 77}, &exportSet{o: &options{}, file: "/e"}, " are let in, and act as uid 77"},
	} {
		m, q := trusted(t, c.base, strings.Fields(c.args)...)
		if got := m.line(&q, here, c.set); !strings.HasSuffix(got, c.want) {
			t.Errorf("%q: %q, want %q", c.args, got, c.want)
		}
	}
}
