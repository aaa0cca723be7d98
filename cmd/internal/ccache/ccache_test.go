// Tests of the search: order, types, and files that must not be read.

package ccache_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/cmd/internal/ccache"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// A place is a machine's directories, and a Finder for them.
type place struct {
	*ccache.Finder
	t         *testing.T
	temp, run string // run is this user's directory below the Finder's Run
	uid       uint32
	id        string
}

func newPlace(t *testing.T) *place {
	uid := uint32(os.Geteuid())
	p := &place{t: t, temp: t.TempDir(), uid: uid, id: strconv.Itoa(int(uid))}
	top := t.TempDir()
	p.run = filepath.Join(top, p.id)
	must.Succeed(t, os.Mkdir(p.run, 0o700))
	p.Finder = &ccache.Finder{Own: uid + 1, Temp: []string{p.temp}, Run: top}
	return p
}

// put writes a cache whose content is its own base name.
func (p *place) put(name string) string {
	p.t.Helper()
	must.Succeed(p.t, os.MkdirAll(filepath.Dir(name), 0o700))
	must.Succeed(p.t, os.WriteFile(name, []byte(filepath.Base(name)), 0o600))
	return name
}

// find returns the names of the found caches, and checks each cache's content.
func (p *place) find() ([]string, error) {
	p.t.Helper()
	list, err := p.Find(p.uid)
	var names []string
	for _, c := range list {
		names = append(names, c.Name)
		if got, want := string(c.Data), filepath.Base(c.Name); got != want {
			p.t.Errorf("content of %s: got %q, want %q", c.Name, got, want)
		}
	}
	return names, err
}

// want checks the found caches and that nothing was rejected.
func (p *place) want(want ...string) {
	p.t.Helper()
	got, err := p.find()
	if !slices.Equal(got, want) {
		p.t.Errorf("caches: got %q, want %q", got, want)
	}
	if err != nil {
		p.t.Errorf("rejected: got %v, want nothing", err)
	}
}

// wantNone checks that no cache is found, and that the error contains the reason.
func (p *place) wantNone(reason string) {
	p.t.Helper()
	got, err := p.find()
	if len(got) != 0 {
		p.t.Errorf("caches: got %q, want none", got)
	}
	if !errors.Is(err, ccache.ErrNone) {
		p.t.Errorf("error: got %v, want ErrNone", err)
	}
	if err != nil && !strings.Contains(err.Error(), reason) {
		p.t.Errorf("error: got %q, want %q in it", err, reason)
	}
}

func TestUsualPlacesInOrder(t *testing.T) {
	p := newPlace(t)
	plain := p.put(filepath.Join(p.temp, "krb5cc_"+p.id))
	old := p.put(filepath.Join(p.temp, "krb5cc_"+p.id+"_aaaa"))
	young := p.put(filepath.Join(p.temp, "krb5cc_"+p.id+"_zzzz"))
	own := p.put(filepath.Join(p.run, "krb5cc_x"))
	tkt := p.put(filepath.Join(p.run, "krb5cc", "tkt"))
	p.put(filepath.Join(p.temp, "krb5cc_"+p.id+"9")) // another user's name
	p.put(filepath.Join(p.temp, "krb5cc_machine_EXAMPLE.ORG"))
	must.Succeed(t, os.Chtimes(old, time.Time{}, time.Now().Add(-time.Hour)))
	p.want("FILE:"+plain, "DIR::"+tkt, "FILE:"+young, "FILE:"+old, "FILE:"+own)

	must.Succeed(t, os.Chtimes(young, time.Time{}, time.Now().Add(-2*time.Hour)))
	p.want("FILE:"+plain, "DIR::"+tkt, "FILE:"+old, "FILE:"+young, "FILE:"+own)
}

func TestNameOfKrb5ConfComesFirst(t *testing.T) {
	p := newPlace(t)
	plain := p.put(filepath.Join(p.temp, "krb5cc_"+p.id))
	named := p.put(filepath.Join(p.temp, "own-"+p.id))
	for _, v := range []string{"uid", "euid", "USERID"} {
		p.Default = "FILE:" + filepath.Join(p.temp, "own-%{"+v+"}")
		p.want("FILE:"+named, "FILE:"+plain)
	}
	p.Default = filepath.Join(p.temp, "own-%{null}%{uid}") // a path without a type is a file
	p.want("FILE:"+named, "FILE:"+plain)
	p.Default = "FILE:" + plain // the same file as in temp, which is read only once
	p.want("FILE:" + plain)
}

func TestEnvironmentCountsForOwnUserOnly(t *testing.T) {
	p := newPlace(t)
	plain := p.put(filepath.Join(p.temp, "krb5cc_"+p.id))
	named := p.put(filepath.Join(p.temp, "elsewhere"))
	p.Env = "FILE:" + named
	p.want("FILE:" + plain)
	p.Own = p.uid
	p.want("FILE:" + named)
	p.Env = named
	p.want("FILE:" + named)
	p.Env = "FILE:" + named + "-gone"
	p.wantNone("")
}

func TestCollection(t *testing.T) {
	p := newPlace(t)
	dir := filepath.Join(p.temp, "coll")
	a, b, c := p.put(filepath.Join(dir, "tkta")), p.put(filepath.Join(dir, "tktb")), p.put(filepath.Join(dir, "tktc"))
	p.put(filepath.Join(dir, "other"))
	p.Default = "DIR:" + dir
	p.want("DIR::"+a, "DIR::"+b, "DIR::"+c)
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "primary"), []byte("tktb\n"), 0o600))
	p.want("DIR::"+b, "DIR::"+a, "DIR::"+c)
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "primary"), []byte("tkt/../../evil\n"), 0o600))
	p.put(filepath.Join(p.temp, "evil"))
	p.want("DIR::"+a, "DIR::"+b, "DIR::"+c)
	p.Default = "DIR::" + c
	p.want("FILE:" + c)
}

func TestOtherTypesAreNamed(t *testing.T) {
	p := newPlace(t)
	for _, name := range []string{"KEYRING:persistent:1000", "KCM:", "API:x", "MEMORY:x"} {
		p.Default = name
		p.wantNone("caches of type " + name[:strings.Index(name, ":")] + " are not read")
		var kind *ccache.TypeError
		if _, err := p.Find(p.uid); !errors.As(err, &kind) {
			t.Errorf("%s: got %v, want a TypeError", name, err)
		}
	}
	// kinit for another realm may write to this usual place
	plain := p.put(filepath.Join(p.temp, "krb5cc_"+p.id))
	if got, _ := p.find(); !slices.Equal(got, []string{"FILE:" + plain}) {
		t.Errorf("beside KCM: got %q, want %s", got, plain)
	}
}

func TestUnsafeFilesAreNotRead(t *testing.T) {
	for _, tt := range []struct {
		name, reason string
		make         func(p *place, at string)
	}{
		{"missing", "", func(*place, string) {}},
		{"link", "symbolic link", func(p *place, at string) { must.Succeed(t, os.Symlink(p.put(at+"-target"), at)) }},
		{"directory", "not a regular file", func(p *place, at string) { must.Succeed(t, os.Mkdir(at, 0o700)) }},
		{"FIFO", "not a regular file", func(p *place, at string) { must.Succeed(t, unix.Mkfifo(at, 0o600)) }},
		{"writable by the group", "others may write it (mode 0620)", func(p *place, at string) { must.Succeed(t, os.Chmod(p.put(at), 0o620)) }},
		{"writable by others", "others may write it (mode 0602)", func(p *place, at string) { must.Succeed(t, os.Chmod(p.put(at), 0o602)) }},
		{"too large", "larger than", func(p *place, at string) { must.Succeed(t, os.Truncate(p.put(at), 1<<20+1)) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPlace(t)
			tt.make(p, filepath.Join(p.temp, "krb5cc_"+p.id))
			p.wantNone(tt.reason)
		})
	}
}

// TestManyCaches: a user with many caches costs little memory, and the newest is still first.
func TestManyCaches(t *testing.T) {
	p := newPlace(t)
	newest := ""
	for i := range 100 {
		name := p.put(filepath.Join(p.temp, "krb5cc_"+p.id+"_"+strconv.Itoa(i)))
		at := time.Unix(1e9+int64(i*37%100), 0)
		must.Succeed(t, os.Chtimes(name, at, at))
		if i*37%100 == 99 {
			newest = "FILE:" + name
		}
		p.put(filepath.Join(p.temp, "coll", "tkt"+strconv.Itoa(i)))
	}
	list, err := p.find()
	if len(list) == 0 || len(list) > 16 || list[0] != newest {
		t.Errorf("got %d caches, %v, %v, want at most 16 and %s first", len(list), list, err, newest)
	}
	p.Default = "DIR:" + filepath.Join(p.temp, "coll")
	if list, err := p.find(); len(list) == 0 || len(list) > 16 {
		t.Errorf("collection: got %d caches, %v, want at most 16", len(list), err)
	}
}

// TestManyFilesOfOthers: another user's files, newer than the caches, hide none and cost little.
func TestManyFilesOfOthers(t *testing.T) {
	p := newPlace(t)
	want := p.put(filepath.Join(p.temp, "krb5cc_"+p.id+"_own"))
	must.Succeed(t, os.Chtimes(want, time.Unix(1e9, 0), time.Unix(1e9, 0)))
	for i := range 100 {
		must.Succeed(t, os.Symlink("x", filepath.Join(p.temp, "krb5cc_"+p.id+"_"+strconv.Itoa(i))))
	}
	list, err := p.find()
	if !slices.Equal(list, []string{"FILE:" + want}) {
		t.Errorf("got %v, %v, want %s", list, err, want)
	}
	if n := strings.Count(err.Error(), "symbolic link"); n == 0 || n > 16 {
		t.Errorf("got %d reasons, want 1 to 16", n)
	}
}

func TestFilesOfOtherUsersAreNotRead(t *testing.T) {
	p := newPlace(t)
	other := strconv.Itoa(int(p.uid) + 5)
	p.put(filepath.Join(p.temp, "krb5cc_"+other)) // belongs to this user
	dir := filepath.Join(p.temp, "coll")
	p.put(filepath.Join(dir, "tkt"))
	p.Default = "DIR:" + dir
	list, err := p.Find(p.uid + 5)
	if len(list) != 0 || !errors.Is(err, ccache.ErrNone) {
		t.Fatalf("got %d caches and %v, want none", len(list), err)
	}
	want := "belongs to uid " + p.id + ", not to " + other
	if got := strings.Count(err.Error(), want); got != 2 {
		t.Errorf("got %q, want %q for the file and for the directory", err, want)
	}
}

func TestUnsafeCollectionsAreNotRead(t *testing.T) {
	p := newPlace(t)
	dir := filepath.Join(p.temp, "coll")
	tkt := p.put(filepath.Join(dir, "tkt"))
	p.Default = "DIR:" + dir
	p.want("DIR::" + tkt)
	must.Succeed(t, os.Chmod(dir, 0o777))
	p.wantNone("others may write it")
	must.Succeed(t, os.Chmod(dir, 0o700))
	must.Succeed(t, os.Rename(tkt, filepath.Join(dir, "real")))
	must.Succeed(t, os.Symlink("real", tkt))
	p.wantNone("symbolic link")
	must.Succeed(t, os.Rename(dir, dir+"-real"))
	must.Succeed(t, os.Symlink(dir+"-real", dir))
	p.wantNone("it is no directory")
}

func TestUsualName(t *testing.T) {
	f := &ccache.Finder{Own: 7, Env: "FILE:/x"}
	for _, tt := range []struct {
		uid       uint32
		def, want string
	}{{7, "KCM:", "FILE:/x"}, {8, "KCM:", "KCM:"}, {8, "", "FILE:/tmp/krb5cc_8"}, {8, "FILE:%{TEMP}/k%{uid}", "FILE:/tmp/k8"}} {
		f.Default = tt.def
		if got := f.Usual(tt.uid); got != tt.want {
			t.Errorf("user %d with %q: got %s, want %s", tt.uid, tt.def, got, tt.want)
		}
	}
}

func TestSystem(t *testing.T) {
	t.Setenv("KRB5CCNAME", "FILE:/here")
	f := ccache.System("KCM:")
	if f.Env != "FILE:/here" || f.Default != "KCM:" || f.Own != uint32(os.Geteuid()) {
		t.Errorf("got %+v", *f)
	}
}
