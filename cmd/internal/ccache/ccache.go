// The search for a user's credential caches, in the order of rpc.gssd(8).

// Package ccache finds and reads the Kerberos credential caches of local users, for a process that
// acts for several of them. It does not parse the caches.
//
// A cache decides the principal for a user's calls. So it counts only if it is a regular file,
// belongs to that user, and is writable by no one else. The checks are made on the open file,
// because users can write in the directories. A FUSE file system can claim any owner (mounts.go).
package ccache

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ErrNone is the error if a user has no cache that can be read.
var ErrNone = errors.New("no Kerberos credential cache")

// A TypeError reports a cache type that this package does not read, such as KCM.
type TypeError struct{ Name string }

func (e *TypeError) Error() string {
	kind, _, _ := strings.Cut(e.Name, ":")
	return e.Name + ": caches of type " + kind + " are not read: use FILE or DIR (KRB5CCNAME, or default_ccache_name in krb5.conf)"
}

// A Cache is a credential cache as read.
type Cache struct {
	Name     string // type and path: "FILE:/tmp/krb5cc_1000"
	Data     []byte // the whole file; owned by the caller
	Modified time.Time
}

// A Finder finds caches. System returns one for this machine.
type Finder struct {
	Own     uint32   // the user of this process
	Env     string   // KRB5CCNAME of this process, used only for Own; "": not set
	Default string   // default_ccache_name of krb5.conf with its %{} variables; "": not set
	Temp    []string // directories with caches named krb5cc_UID and krb5cc_UID_*
	Run     string   // has a directory for each user, which may contain krb5cc
}

// System returns the Finder for this machine. def is default_ccache_name of krb5.conf, or "".
func System(def string) *Finder {
	return &Finder{Own: uint32(os.Geteuid()), Env: os.Getenv("KRB5CCNAME"), Default: def, Temp: []string{"/tmp"}, Run: "/run/user"}
}

// Find returns the caches of a user, the best first: from KRB5CCNAME, from krb5.conf, then from the
// usual places. Caches of equal rank are sorted by last change, the newest first. The error has the
// reason for each rejected cache; without any cache it is, or joins, ErrNone.
func (f *Finder) Find(uid uint32) ([]Cache, error) {
	s := search{uid: uid, seen: make(map[string]bool)}
	if uid == f.Own && f.Env != "" {
		s.named(f.Env) // as in all programs, KRB5CCNAME replaces the other places
		return s.result()
	}
	if f.Default != "" {
		s.named(expand(f.Default, uid))
	}
	for _, dir := range f.Temp {
		s.file(filepath.Join(dir, "krb5cc_"+id(uid)))
	}
	run := filepath.Join(f.Run, id(uid))
	s.dir(filepath.Join(run, "krb5cc"))
	for _, dir := range append(slices.Clone(f.Temp), run) {
		s.newest(dir, uid)
	}
	return s.result()
}

// Usual returns the cache name that the programs of a user write to, for messages.
func (f *Finder) Usual(uid uint32) string {
	switch {
	case uid == f.Own && f.Env != "":
		return f.Env
	case f.Default != "":
		return expand(f.Default, uid)
	}
	return "FILE:/tmp/krb5cc_" + id(uid)
}

func id(uid uint32) string { return strconv.FormatUint(uint64(uid), 10) }

// expand replaces the variables of krb5.conf that stand for the user and the usual directories.
func expand(name string, uid uint32) string {
	return strings.NewReplacer("%{uid}", id(uid), "%{euid}", id(uid), "%{USERID}", id(uid), "%{TEMP}", "/tmp", "%{null}", "").Replace(name)
}

// A search collects the caches of one user.
type search struct {
	uid    uint32
	seen   map[string]bool // paths
	found  []Cache
	errors []error
}

// result ends the search.
func (s *search) result() ([]Cache, error) {
	if len(s.found) == 0 {
		s.errors = append([]error{ErrNone}, s.errors...)
	}
	return s.found, errors.Join(s.errors...)
}

// full reports whether the search has reached its limit on caches or on reasons.
func (s *search) full() bool { return len(s.found) >= maxCaches || len(s.errors) >= maxReasons }

// reject notes an unusable cache. A missing one is no error.
func (s *search) reject(err error) {
	if err != nil && !errors.Is(err, fs.ErrNotExist) && len(s.errors) < maxReasons {
		s.errors = append(s.errors, err)
	}
}

// named adds the caches of a name as in KRB5CCNAME.
func (s *search) named(name string) {
	kind, rest, typed := strings.Cut(name, ":")
	switch {
	case !typed || strings.HasPrefix(name, "/"):
		s.file(name)
	case kind == "FILE":
		s.file(rest)
	case kind == "DIR" && strings.HasPrefix(rest, ":"): // one cache of a collection
		s.file(rest[1:])
	case kind == "DIR":
		s.dir(rest)
	default:
		s.reject(&TypeError{name})
	}
}

// file adds a file.
func (s *search) file(name string) {
	if s.seen[name] || len(s.found) >= maxCaches {
		return
	}
	s.seen[name] = true
	c, err := read(name, s.uid)
	if err != nil {
		s.reject(err)
		return
	}
	s.found = append(s.found, c)
}

// dir adds the caches of a DIR collection: its primary cache, then the others.
func (s *search) dir(name string) {
	d, err := openDir(name, s.uid)
	if err != nil {
		s.reject(err)
		return
	}
	defer d.Close()
	names, err := d.Readdirnames(maxNames)
	if len(names) == 0 {
		s.reject(err)
		return
	}
	if primary, err := readAt(d, "primary", s.uid); err == nil {
		s.member(d, strings.TrimSpace(string(primary.Data)))
	}
	slices.Sort(names)
	for _, n := range names {
		if s.full() {
			return
		}
		s.member(d, n)
	}
}

// member adds one cache of a collection.
func (s *search) member(d *os.File, base string) {
	name := filepath.Join(d.Name(), base)
	if !strings.HasPrefix(base, "tkt") || strings.Contains(base, "/") || s.seen[name] || len(s.found) >= maxCaches {
		return
	}
	s.seen[name] = true
	c, err := readAt(d, base, s.uid)
	if err != nil {
		s.reject(err)
		return
	}
	c.Name = "DIR::" + name
	s.found = append(s.found, c)
}

// newest adds the files krb5cc_UID_* of a directory, which programs make with a random end, and in
// a user's own directory krb5cc*. The newest comes first.
func (s *search) newest(dir string, uid uint32) {
	d, err := os.Open(dir)
	if err != nil {
		s.reject(err)
		return
	}
	defer d.Close()
	names, err := d.Readdirnames(maxNames)
	if len(names) == 0 {
		return // the directory is empty, or shows nothing to this process
	}
	if err != nil {
		s.reject(fmt.Errorf("%s: %w", dir, err))
	}
	prefix := "krb5cc_" + id(uid) + "_"
	if filepath.Base(dir) == id(uid) {
		prefix = "krb5cc_"
	}
	for _, n := range ranked(dir, names, prefix, uid) {
		if s.full() {
			return
		}
		s.file(n)
	}
}

// ranked returns the paths with a prefix: the user's own regular files, the newest first, then the
// rest, which are opened only to report why they are rejected. So neither many files nor files of
// others hide the newest cache. It skips files on another user's FUSE file system.
func ranked(dir string, names []string, prefix string, uid uint32) []string {
	type file struct {
		path     string
		foreign  bool
		modified time.Time
	}
	var files []file
	for _, n := range names {
		if !strings.HasPrefix(n, prefix) {
			continue
		}
		name := filepath.Join(dir, n)
		if st, err := statNow(unix.AT_FDCWD, name); err == nil && foreign(name, &st, uid) == nil {
			files = append(files, file{name, st.Mode&unix.S_IFMT != unix.S_IFREG || st.Uid != uid, time.Unix(st.Mtime.Sec, int64(st.Mtime.Nsec))})
		}
	}
	slices.SortFunc(files, func(a, b file) int {
		if a.foreign != b.foreign {
			if b.foreign {
				return -1
			}
			return 1
		}
		return cmp.Or(b.modified.Compare(a.modified), strings.Compare(a.path, b.path))
	})
	paths := make([]string, len(files))
	for i := range files {
		paths[i] = files[i].path
	}
	return paths
}
