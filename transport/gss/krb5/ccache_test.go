// Credential caches as files.

package krb5

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/must"
)

// cacheBytes encodes a cache of alice@R with a setting of MIT's library and three
// ticket-granting tickets: one until end, one that ends earlier, and one with an unsupported
// enctype that ends later.
func cacheBytes(version byte, end time.Time) []byte {
	b := []byte{5, version}
	if version == 4 {
		b = append(b, 0, 12, 0, 1, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0)
	}
	u32 := func(v uint32) { b = binary.BigEndian.AppendUint32(b, v) }
	u16 := func(v uint16) { b = binary.BigEndian.AppendUint16(b, v) }
	counted := func(s string) { u32(uint32(len(s))); b = append(b, s...) }
	principal := func(realm string, parts ...string) {
		u32(1)
		u32(uint32(len(parts)))
		counted(realm)
		for _, p := range parts {
			counted(p)
		}
	}
	principal("R", "alice")
	for i, server := range []string{"X-CACHECONF:", "R", "R", "R"} {
		enctype := uint16([]int{0, AES256SHA1, AES128SHA1, 23}[i])
		principal("R", "alice")
		principal(server, "krbtgt", "R")
		u16(enctype)
		if version == 3 {
			u16(enctype)
		}
		counted(strings.Repeat("k", 32))
		u32(uint32(end.Unix()) - 3600)
		u32(0)
		u32(uint32(end.Unix()) + uint32([]int{0, 0, -60, 60}[i]))
		u32(uint32(end.Unix()) + 7200)
		b = append(b, 0)
		u32(0x40e10000)
		u32(1) // address
		u16(2)
		counted("addr")
		u32(1) // authorization data
		u16(1)
		counted("data")
		counted("ticket")
		counted("")
	}
	return b
}

func TestParseCache(t *testing.T) {
	end := time.Unix(1_900_000_000, 0)
	for _, version := range []byte{3, 4} {
		b := cacheBytes(version, end)
		c, err := parseCache(b)
		must.Succeed(t, err)
		if len(c.tickets) != 3 || c.client.String() != "alice@R" {
			t.Fatalf("version %d: %d tickets of %s, want 3 of alice@R", version, len(c.tickets), c.client)
		}
		tgt := c.best(ticketGranting("R", "R"))
		if tgt == nil || tgt.key.enctype != AES256SHA1 || !tgt.end.Equal(end) || string(tgt.encoded) != "ticket" {
			t.Errorf("version %d: the best ticket is %+v", version, tgt)
		}
		if !tgt.start.Equal(end.Add(-time.Hour)) || !tgt.renew.Equal(end.Add(2*time.Hour)) {
			t.Errorf("version %d: begins %v, renewable until %v", version, tgt.start, tgt.renew)
		}
		if got := c.best(ticketGranting("S", "R")); got != nil {
			t.Errorf("version %d: a ticket for another realm: %+v", version, got)
		}
		complete := 0
		for n := range b {
			if _, err := parseCache(b[:n]); err == nil {
				complete++
			}
		}
		if complete != 4 { // after the client, and after each ticket but the last
			t.Errorf("version %d: %d of the truncated caches are taken, want 4", version, complete)
		}
	}
	for _, b := range [][]byte{nil, {5}, {5, 1}, {5, 2, 0, 0}, {4, 4}} {
		if _, err := parseCache(b); err == nil {
			t.Errorf("%x is a cache", b)
		}
	}
}

// TestCacheOwner: a cache is a regular file of its user, and no link.
func TestCacheOwner(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "cc"), filepath.Join(dir, "link")
	must.Succeed(t, os.WriteFile(file, cacheBytes(4, time.Now().Add(time.Hour)), 0o600), os.Symlink(file, link))
	uid := os.Getuid()
	for _, v := range []struct {
		path  string
		owner int
		ok    bool
	}{{file, uid, true}, {file, -1, true}, {file, uid + 1, false}, {link, uid, false}, {dir, uid, false}, {dir, -1, false}} {
		if _, _, err := readCache(v.path, v.owner); (err == nil) != v.ok {
			t.Errorf("%s for user %d: %v", v.path, v.owner, err)
		}
	}
	if _, _, err := readCache(file+"x", uid); err == nil || !strings.Contains(err.Error(), "run kinit") {
		t.Errorf("a missing cache: %v", err)
	}
}

func TestParseKeytab(t *testing.T) {
	b := keytabFile(t, 300, "nfs/server@R", "BOX$@R")
	entries, err := parseKeytab(b)
	must.Succeed(t, err)
	if len(entries) != 8 || entries[0].Principal != "nfs/server@R" || entries[7].Principal != "BOX$@R" || entries[0].Version != 300 {
		t.Errorf("%d entries, %+v", len(entries), entries)
	}
	hole := append([]byte{5, 2, 0xff, 0xff, 0xff, 0xfc, 1, 2, 3, 4}, b[2:]...)
	if entries, err := parseKeytab(append(hole, 0, 0, 0, 0, 1)); err != nil || len(entries) != 8 {
		t.Errorf("with a hole: %d entries, %v", len(entries), err)
	}
	for _, b := range [][]byte{nil, {5, 1}, {5, 2, 0, 0, 0, 9, 1}, {5, 2, 0x80, 0, 0, 0}, {5, 2, 0, 0, 0, 2, 0, 1}} {
		if _, err := parseKeytab(b); err == nil {
			t.Errorf("%x is a keytab", b)
		}
	}
}
