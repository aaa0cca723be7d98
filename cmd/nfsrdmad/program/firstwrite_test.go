// The lines at start about a first client that cannot write, or cannot connect.

package program

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/nfsserver/osfs"
	"github.com/nfsrdma/nfsrdma/test/machine"
)

func TestFirstWrite(t *testing.T) {
	if !osfs.ActsAsCallers() {
		machine.Skip(t, "the right to become other users")
	}
	dir := t.TempDir()
	rules := func(options string) *exports.Export {
		f, err := exports.Parse("f", []byte(dir+" "+options))
		if err != nil {
			t.Fatal(err)
		}
		return f.Exports[0]
	}
	for name, c := range map[string]struct {
		mode  os.FileMode
		owner int
		o     options
		rules *exports.Export
		cure  string // "": no lines
	}{
		"of root alone":           {0o755, 0, options{}, nil, "--no-root-squash"},
		"of a user":               {0o755, 7, options{}, nil, ""},
		"of a group":              {0o775, 0, options{}, nil, ""},
		"of all":                  {0o1777, 0, options{}, nil, ""},
		"read-only":               {0o755, 0, options{readOnly: true}, nil, ""},
		"no squash":               {0o755, 0, options{trust: trust{noRootSquash: true}}, nil, ""},
		"a file that squashes":    {0o755, 0, options{trust: trust{noRootSquash: true}}, rules("*(rw)"), "no_root_squash in /etc/e"},
		"a file that does not":    {0o755, 0, options{}, rules("*(rw) 192.0.2.7(rw,no_root_squash)"), ""},
		"a file for readers":      {0o755, 0, options{}, rules("*(ro)"), ""},
		"a file with a user":      {0o755, 0, options{}, rules("*(rw,all_squash,anonuid=7)"), ""},
		"a file of squashed root": {0o755, 0, options{}, rules("*(rw,all_squash,no_root_squash)"), "no_root_squash in /etc/e"},
	} {
		at := filepath.Join(dir, name)
		if err := os.Mkdir(at, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(at, c.owner, 0); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(at, c.mode); err != nil {
			t.Fatal(err)
		}
		set := &exportSet{o: &c.o, file: "/etc/e", from: map[string]source{"/x": {at: at, dir: &directory{}, rules: c.rules}}}
		got := strings.Join(set.firstWriteLines([]string{"/x", "/memory"}), "\n")
		switch {
		case c.cure == "" && got != "":
			t.Errorf("%s: %q, want nothing", name, got)
		case c.cure != "" && !strings.Contains(got, "warning: only root may write in "+at+" (mode 0755)"):
			t.Errorf("%s: %q, want the directory", name, got)
		case c.cure != "" && !strings.Contains(got, "chown USER '"+at+"'"):
			t.Errorf("%s: %q, want the command that gives a user the right", name, got)
		case !strings.HasSuffix(got, c.cure):
			t.Errorf("%s: %q, want %q", name, got, c.cure)
		}
	}
}

func TestReachLine(t *testing.T) {
	here := &nfsserver.Service{TCPAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}}
	if got := reachLine(here, "127.0.0.1"); !strings.Contains(got, "on this machine only, as the address is 127.0.0.1; for other machines: --addr 0.0.0.0") {
		t.Errorf("on loopback: %q", got)
	}
	there := &nfsserver.Service{RDMAAddr: &net.TCPAddr{IP: net.IPv6unspecified}}
	if got := reachLine(there, "::"); got != "" {
		t.Errorf("on all addresses: %q, want nothing", got)
	}
}

// TestMetricsHost: the address of the metrics page is one that a client can use.
func TestMetricsHost(t *testing.T) {
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for addr, want := range map[string]string{
		":9049": name + ":9049", "0.0.0.0:9049": name + ":9049", "[::]:9049": name + ":9049",
		"127.0.0.1:9049": "127.0.0.1:9049", "[::1]:9049": "[::1]:9049", "localhost:9049": "localhost:9049",
	} {
		if got := metricsHost(addr); got != want {
			t.Errorf("%s: %s, want %s", addr, got, want)
		}
	}
}
