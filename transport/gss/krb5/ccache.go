// Credential caches in files (MIT's format, versions 3 and 4).

package krb5

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// A ticket is a ticket with the client's part.
type ticket struct {
	client  name
	server  name
	key     rawKey // the session key
	start   time.Time
	end     time.Time
	renew   time.Time // end of renewal, if it is after end
	encoded []byte    // DER
}

// A ccache is a decoded credential cache.
type ccache struct {
	client  name
	tickets []ticket
}

// cacheFile returns a cache's path; for a directory, its primary cache's. Caches that are no files
// cannot be read without MIT's library.
func cacheFile(cache string) (string, error) {
	kind, rest, ok := strings.Cut(cache, ":")
	if !ok || strings.HasPrefix(cache, "/") {
		return cache, nil
	}
	switch strings.ToUpper(kind) {
	case "FILE":
		return rest, nil
	case "DIR":
		if sub, ok := strings.CutPrefix(rest, ":"); ok {
			return sub, nil
		}
		return primary(rest)
	}
	return "", fmt.Errorf("krb5: the credential cache %s is of type %s, which cannot be read: set default_ccache_name = FILE:/tmp/krb5cc_%%{uid} in krb5.conf, or KRB5CCNAME, and run kinit again", cache, kind)
}

// primary returns the cache named in a directory's file primary, or without that file tkt.
func primary(dir string) (string, error) {
	b, err := readFile(filepath.Join(dir, "primary"))
	if errors.Is(err, os.ErrNotExist) {
		return filepath.Join(dir, "tkt"), nil
	}
	if err != nil {
		return "", fmt.Errorf("krb5: credential cache: %w", err)
	}
	file := strings.TrimSpace(string(b))
	if file != filepath.Base(file) || !strings.HasPrefix(file, "tkt") {
		return "", fmt.Errorf("krb5: credential cache: %s/primary names %q, not a cache", dir, file)
	}
	return filepath.Join(dir, file), nil
}

// readCache reads a cache's file. With an owner of at least 0 the file must belong to that user, so
// that a link cannot make a root process use another user's tickets.
func readCache(path string, owner int) (*ccache, os.FileInfo, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil, fmt.Errorf("krb5: there is no credential cache %s: run kinit", path)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("krb5: credential cache: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, fmt.Errorf("krb5: credential cache: %w", err)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !info.Mode().IsRegular() || ok && owner >= 0 && int(st.Uid) != owner {
		return nil, nil, fmt.Errorf("krb5: credential cache %s is not a file of user %d", path, owner)
	}
	b, err := readLimited(f)
	if err != nil {
		return nil, nil, fmt.Errorf("krb5: credential cache: %w", err)
	}
	c, err := parseCache(b)
	if err != nil {
		return nil, nil, fmt.Errorf("krb5: credential cache %s: %w", path, err)
	}
	return c, info, nil
}

var errCache = errors.New("not a credential cache of version 3 or 4, or damaged")

func parseCache(b []byte) (*ccache, error) {
	s := &scanner{b: b, ok: true}
	if s.byte() != 5 {
		return nil, errCache
	}
	v := s.byte()
	if v == 4 {
		s.counted16() // the header, with the offset of the KDC's clock
	} else if v != 3 {
		return nil, errCache
	}
	c := &ccache{client: s.principal()}
	for s.ok && len(s.b) > 0 {
		t := s.ticket(v)
		if s.ok && !strings.HasPrefix(t.server.realm, "X-CACHECONF:") { // settings of MIT's library
			c.tickets = append(c.tickets, t)
		}
	}
	if !s.ok {
		return nil, errCache
	}
	return c, nil
}

func (s *scanner) principal() name {
	n := name{kind: int32(s.uint32())}
	count := s.uint32()
	n.realm = string(s.counted32())
	if count > maxComponents {
		s.ok = false
	}
	for range count {
		if !s.ok {
			break
		}
		n.parts = append(n.parts, string(s.counted32()))
	}
	return n
}

func (s *scanner) ticket(version byte) ticket {
	t := ticket{client: s.principal(), server: s.principal()}
	t.key.enctype = int32(s.uint16())
	if version == 3 {
		s.uint16() // the enctype again
	}
	t.key.value = s.counted32()
	auth := s.time()
	if t.start = s.time(); !t.start.After(time.Unix(0, 0)) {
		t.start = auth
	}
	t.end, t.renew = s.time(), s.time()
	s.byte()      // is_skey
	s.uint32()    // flags
	for range 2 { // addresses, authorization data
		for range s.uint32() {
			s.uint16()
			if s.counted32(); !s.ok {
				return t
			}
		}
	}
	t.encoded = s.counted32()
	s.counted32() // the second ticket
	return t
}

func (s *scanner) time() time.Time { return time.Unix(int64(s.uint32()), 0) }

// best returns the ticket for a server, or nil: of those with a supported session key, the one that
// ends last.
func (c *ccache) best(server name) (best *ticket) {
	for i := range c.tickets {
		t := &c.tickets[i]
		if t.server.same(server) && enctypeOf(t.key.enctype) != nil && (best == nil || t.end.After(best.end)) {
			best = t
		}
	}
	return best
}
