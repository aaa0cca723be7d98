// Host names of an exports file that do not resolve.

package program

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
)

// A hosts is a name service that knows some names, and does not answer for others.
type hosts struct{ net.Resolver }

func (*hosts) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	switch host {
	case "known.example.org":
		return []netip.Addr{netip.MustParseAddr("192.0.2.7")}, nil
	case "silent.example.org":
		return nil, &net.DNSError{Err: "i/o timeout", Name: host, IsTimeout: true}
	}
	return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}

// TestNamesThatDoNotResolve: each name is reported once, at its first place. Patterns, networks and
// addresses are not looked up.
func TestNamesThatDoNotResolve(t *testing.T) {
	text := "/a *(ro) 192.0.2.1(rw) 192.0.2.0/24(rw) pc*.example.org(rw) known.example.org(rw)\n" +
		"/b known.example.org(rw) Gone.Example.org.(rw) silent.example.org\n/c gone.example.org\n"
	for i := range 2 * lookupsAtOnce {
		text += fmt.Sprintf("/d%d known.example.org gone%d\n", i, i)
	}
	f, err := exports.Parse("f", []byte(text))
	if err != nil {
		t.Fatalf("Parse: %v", err)
	}
	got := unresolved(t.Context(), &hosts{}, "f", f)
	want := []string{
		"f:2:26: warning: Gone.Example.org. does not resolve: until it does, its rule lets no host in",
		"f:2:48: warning: silent.example.org cannot be looked up now (lookup silent.example.org: i/o timeout): until it can be, its rule lets no host in",
		"f:4:23: warning: gone0 does not resolve: until it does, its rule lets no host in",
	}
	if len(got) != 2+2*lookupsAtOnce {
		t.Fatalf("%d warnings, want %d: %v", len(got), 2+2*lookupsAtOnce, errors.Join(got...))
	}
	for i := range want {
		if got[i].Error() != want[i] {
			t.Errorf("got  %v\nwant %s", got[i], want[i])
		}
	}
}

// TestCheckWarnsOfNames: the command check warns of names, and succeeds.
func TestCheckWarnsOfNames(t *testing.T) {
	dir := t.TempDir()
	// a label of 64 bytes, which is too long to be looked up
	file, name := filepath.Join(dir, "exports"), strings.Repeat("a", 64)
	put(t, file, dir+" localhost(rw) "+name+"(rw)\n")
	var out, complaints bytes.Buffer
	root := newRoot()
	root.SetArgs([]string{"check", file})
	root.SetOut(&out)
	root.SetErr(&complaints)
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Errorf("check: %v, want success", err)
	}
	if want := fmt.Sprintf("%s:1:%d: warning: %s does not resolve: until it does, its rule lets no host in\n", file, len(dir+" localhost(rw) ")+1, name); complaints.String() != want {
		t.Errorf("got  %q\nwant %q", &complaints, want)
	}
	if !strings.Contains(out.String(), name) {
		t.Errorf("%q, want the rule of %s in it", &out, name)
	}
}
