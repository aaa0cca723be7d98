// An authority that several processes use, and its own files.

package certs

import (
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/must"
)

// TestConcurrentRevocations: no revocation is lost if several are added at once.
func TestConcurrentRevocations(t *testing.T) {
	p := newPKI(t)
	const n = 12
	var leaves []*x509.Certificate
	for i := range n {
		file, _, err := p.Issue(ForClient, fmt.Sprint("pc", i), []string{"pc.example.org"}, 5, false)
		must.Succeed(t, err)
		_, made, err := Read(file)
		must.Succeed(t, err)
		leaves = append(leaves, made[0])
	}
	var wg sync.WaitGroup
	for _, leaf := range leaves {
		wg.Go(func() {
			ca, err := OpenCA(p.dir)
			if err == nil {
				_, _, err = ca.Revoke([]*x509.Certificate{leaf}, 5)
			}
			if err != nil {
				t.Errorf("revoke: %v", err)
			}
		})
	}
	wg.Wait()
	_, entries, err := p.Revoke(nil, 5)
	must.Succeed(t, err)
	if entries != n {
		t.Errorf("got %d revocations, want %d", entries, n)
	}
}

// TestIssueKeepsTheAuthority: no certificate replaces the authority's files, or is written
// elsewhere.
func TestIssueKeepsTheAuthority(t *testing.T) {
	p := newPKI(t)
	before := read(t, p.dir)
	for _, base := range []string{"ca", "../ca", "x/../ca", "./ca", "", "."} {
		if _, _, err := p.Issue(ForServer, base, []string{"files.example.org"}, 5, true); err == nil {
			t.Errorf("%q: got no error", base)
		}
	}
	for name, text := range before {
		if b, err := os.ReadFile(name); err != nil || string(b) != text {
			t.Errorf("%s was changed (%v)", filepath.Base(name), err)
		}
	}
}
