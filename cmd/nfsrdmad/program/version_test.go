// --version shows the served protocols.

package program

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/cmd/internal/protocols"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/memfs"
	"github.com/nfsrdma/nfsrdma/nfsserver/nlm"
	"github.com/nfsrdma/nfsrdma/transport/portmap"
)

// TestVersionListsPrograms: each program that is served is in the list with its versions, each
// program in the list is served, and --version shows the list.
func TestVersionListsPrograms(t *testing.T) {
	srv, err := nfsserver.New(nfsserver.Options{Exports: []nfsserver.Export{{Name: "/x", FS: memfs.New(memfs.Options{})}}})
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	defer srv.Close()
	locks, err := nlm.New(srv, nlm.Options{})
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	defer locks.Close()
	served := slices.Concat(srv.Programs(), locks.Programs(), portmap.NewTable(nil).Programs())
	listed := map[[2]uint32]bool{}
	for _, p := range protocols.Programs {
		for v := p.First; v <= p.Last; v++ {
			listed[[2]uint32{p.Number, v}] = true
		}
	}
	found := map[[2]uint32]bool{}
	for _, p := range served {
		key := [2]uint32{p.Number, p.Version}
		found[key] = true
		if !listed[key] {
			t.Errorf("%s, program %d version %d, is served and not listed", p.Name, p.Number, p.Version)
		}
	}
	for key := range listed {
		if !found[key] {
			t.Errorf("program %d version %d is listed and not served", key[0], key[1])
		}
	}
	if out, err := run(context.Background(), "--version"); err != nil || !strings.HasPrefix(out, "nfsrdmad version ") || !strings.HasSuffix(out, protocols.List()+"\n") {
		t.Errorf("%q, %v", out, err)
	}
}
