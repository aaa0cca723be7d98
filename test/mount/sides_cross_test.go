// How the servers treat file systems that are mounted below an export: with crossmnt and without,
// in one another, and when they go and come while clients use them.

package mount

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// sidesMounts mounts file systems below two exports. Below cross, which has crossmnt, a second one
// is mounted inside the first; plain has one. $base is the exports' directory. Each mount point has
// a file named under, which its mount covers.
const sidesMounts = mountedSmall + `cd "$base" && mkdir cross cross/in cross/later plain plain/in && chmod 777 cross plain && touch cross/in/under cross/later/under plain/in/under cross/file
mounted cross/in && mkdir cross/in/deep && touch cross/in/deep/under && mounted cross/in/deep && mounted plain/in
touch cross/in/mounted cross/in/deep/deepest plain/in/mounted`

// mountedSmall mounts a file system of 4 MB.
const mountedSmall = `mounted() { mount -t tmpfs -o size=4m,mode=777 none "$1"; }
`

// sidesRemount unmounts some of the mounts and makes another. unmounted unmounts its argument.
const sidesRemount = `cd "$base" && unmounted cross/in/deep && unmounted cross/in && unmounted plain/in && mounted cross/later && touch cross/later/late`

// sidesCross are the rules of the two exports: %[1]s is the base, %[2]s the client.
const sidesCross = `%[1]s/cross %[2]s(rw,crossmnt,no_root_squash,insecure,no_subtree_check)
%[1]s/plain %[2]s(rw,no_root_squash,insecure,no_subtree_check)
`

// at returns the handle and the attributes of a path in an export.
func (s *sides) at(export string, names ...string) (fh nfs3.FH, a nfs3.Fattr, err error) {
	fh, err = s.c.MountHandle(s.ctx, path.Join(s.base, export))
	if err == nil {
		a, err = s.c.Getattr(s.ctx, fh)
	}
	for _, name := range names {
		if err != nil {
			return fh, a, err
		}
		n, why := s.c.Lookup(s.ctx, fh, name)
		fh, a, err = n.FH, n.Attr, why
	}
	return fh, a, err
}

// names lists a directory.
func (s *sides) names(fh nfs3.FH) string {
	var list []string
	for at := (nfsclient.DirPage{}); ; {
		next, err := s.c.Readdir(s.ctx, fh, at, 4096, func(e *nfs3.Entry) {
			if name := string(e.Name); name != "." && name != ".." && name != "lost+found" {
				list = append(list, name)
			}
		})
		if err != nil {
			return verdict(err)
		}
		if next.EOF {
			slices.Sort(list)
			return strings.Join(list, " ")
		}
		at = next
	}
}

// holds returns a function that lists a directory in an export.
func holds(export string, names ...string) func(*sides) string {
	return func(s *sides) string {
		fh, _, err := s.at(export, names...)
		if err != nil {
			return verdict(err)
		}
		return s.names(fh)
	}
}

// differs returns a function that reports whether a client sees two directories in an export on
// different file systems.
func differs(export string, one, other []string) func(*sides) string {
	return func(s *sides) string {
		_, a, err := s.at(export, one...)
		if err != nil {
			return verdict(err)
		}
		_, b, err := s.at(export, other...)
		switch {
		case err != nil:
			return verdict(err)
		case a.Fsid == b.Fsid:
			return "the same"
		}
		return "another"
	}
}

// listed returns a function that returns READDIRPLUS's description of an export's mount point "in",
// beside LOOKUP's.
func listed(export string) func(*sides) string {
	return func(s *sides) string {
		root, _, err := s.at(export)
		if err != nil {
			return verdict(err)
		}
		inside, a, err := s.at(export, "in")
		if err != nil {
			return verdict(err)
		}
		said := "not at all"
		_, err = s.c.Readdirplus(s.ctx, root, nfsclient.DirPage{}, 4096, 32<<10, func(e *nfs3.EntryPlus) {
			if string(e.Name) != "in" {
				return
			}
			handle, number := "no handle", "another number"
			switch {
			case e.FH.Present && e.FH.FH == inside:
				handle = "its handle"
			case e.FH.Present:
				handle = "another handle"
			}
			if e.Fileid == a.Fileid {
				number = "its number"
			}
			said = handle + ", " + number
		})
		if err != nil {
			return verdict(err)
		}
		return said
	}
}

// crossQuestions are asked while all is mounted.
var crossQuestions = []question{
	{"crossmnt, what is in a mount point", holds("cross", "in")},
	{"crossmnt, what is in a mount point inside it", holds("cross", "in", "deep")},
	{"crossmnt, file system of a mount point", differs("cross", nil, []string{"in"})},
	{"crossmnt, file system of a mount point inside it", differs("cross", []string{"in"}, []string{"in", "deep"})},
	{"crossmnt, .. in the root of what is mounted", func(s *sides) string {
		_, root, err := s.at("cross")
		if err != nil {
			return verdict(err)
		}
		_, in, err := s.at("cross", "in")
		if err != nil {
			return verdict(err)
		}
		_, up, err := s.at("cross", "in", "..")
		switch {
		case err != nil:
			return verdict(err)
		case up.Fsid == root.Fsid && up.Fileid == root.Fileid:
			return "the directory that it is mounted in"
		case up.Fsid == in.Fsid && up.Fileid == in.Fileid:
			return "the root itself"
		}
		return "another directory"
	}},
	{"crossmnt, READDIRPLUS of a mount point", listed("cross")},
	{"crossmnt, size of what is mounted (FSSTAT)", func(s *sides) string {
		fh, _, err := s.at("cross", "in")
		if err != nil {
			return verdict(err)
		}
		st, err := s.c.Fsstat(s.ctx, fh)
		switch {
		case err != nil:
			return verdict(err)
		case st.Tbytes > 4<<20:
			return "another's"
		}
		return "its own"
	}},
	{"crossmnt, CREATE in what is mounted", func(s *sides) string {
		fh, _, err := s.at("cross", "in")
		if err == nil {
			_, err = s.c.Create(s.ctx, fh, "made", nfs3.Unchecked, nfs3.Sattr{SetMode: true, Mode: 0o640}, nfs3.Verf{})
		}
		return verdict(err)
	}},
	{"crossmnt, RENAME into what is mounted, LINK", func(s *sides) string {
		root, _, err := s.at("cross")
		if err != nil {
			return verdict(err)
		}
		fh, _, err := s.at("cross", "in")
		if err != nil {
			return verdict(err)
		}
		file, _, err := s.at("cross", "file")
		if err != nil {
			return verdict(err)
		}
		return verdict(s.c.Rename(s.ctx, root, "file", fh, "moved")) + ", " + verdict(s.c.Link(s.ctx, file, fh, "linked"))
	}},
	{"crossmnt, RMDIR of a mount point, REMOVE", func(s *sides) string {
		root, _, err := s.at("cross")
		if err != nil {
			return verdict(err)
		}
		where := nfs3.DirOpArgs{Dir: root, Name: []byte("in")}
		var dir nfs3.RmdirRes
		var name nfs3.RemoveRes
		// never set by a reply, so that JUKEBOX is an answer here, and the call is not repeated
		var done nfs3.Status
		if err := s.c.Do(s.ctx, nfs3.ProcRmdir, &where, &dir, &done, nil, 0); err != nil {
			return verdict(err)
		}
		if err := s.c.Do(s.ctx, nfs3.ProcRemove, &where, &name, &done, nil, 0); err != nil {
			return verdict(err)
		}
		return dir.Status.String() + ", " + name.Status.String()
	}},
	{"crossmnt, mount a mount point", func(s *sides) string {
		fh, err := s.c.MountHandle(s.ctx, path.Join(s.base, "cross/in"))
		if err != nil {
			return verdict(err)
		}
		return s.names(fh)
	}},
	{"no crossmnt, what is in a mount point", holds("plain", "in")},
	{"no crossmnt, file system of a mount point", differs("plain", nil, []string{"in"})},
	{"no crossmnt, READDIRPLUS of a mount point", listed("plain")},
	{"no crossmnt, mount a mount point", func(s *sides) string {
		fh, err := s.c.MountHandle(s.ctx, path.Join(s.base, "plain/in"))
		if err != nil {
			return verdict(err)
		}
		return s.names(fh)
	}},
}

// remountBefore is asked before the mounts change, and remountQuestions after. They are about
// handles for file systems that are then unmounted, and about those mounted then.
var remountBefore, remountQuestions = func() (question, []question) {
	handles := map[string]nfs3.FH{}
	stays := func(name string) func(*sides) string {
		return func(s *sides) string {
			_, err := s.c.Getattr(s.ctx, handles[name])
			return verdict(err)
		}
	}
	return question{"crossmnt, handles of what is mounted", func(s *sides) string {
			var said []string
			for _, names := range [][]string{{"in"}, {"in", "mounted"}, {"in", "deep", "deepest"}} {
				fh, _, err := s.at("cross", names...)
				handles[path.Join(names...)] = fh
				said = append(said, verdict(err))
			}
			return strings.Join(said, ", ")
		}}, []question{
			{"unmounted, GETATTR of its root", stays("in")},
			{"unmounted, GETATTR of its file", stays("in/mounted")},
			{"unmounted, GETATTR of a file of what was mounted inside it", stays("in/deep/deepest")},
			{"unmounted, what is in its mount point", holds("cross", "in")},
			{"unmounted, file system of its mount point", differs("cross", nil, []string{"in"})},
			{"mounted while it is served, what is in its mount point", holds("cross", "later")},
			{"mounted while it is served, file system of its mount point", differs("cross", nil, []string{"later"})},
		}
}()

// nothingHelps means that no command is needed: the server itself releases a file system.
const nothingHelps = "nothing"

// remountScript returns sidesRemount as a shell script, which prints its outcome. by is the command
// that helps where a file system cannot be unmounted: umount -l, exportfs -f or nothing.
func remountScript(base, by string) string {
	tries := 40 // a tenth of a second each
	if by == nothingHelps {
		tries = 3000 // time enough for a release on any machine
	}
	return fmt.Sprintf(`base=%s
%ssaid=OK
gone() { umount "$1" 2> /dev/null || ! grep -q " $base/$1 " /proc/self/mounts; }
unmounted() {
	for i in $(seq %[5]d); do gone "$1" && return; sleep 0.1; done
	said="target is busy, until %[3]s"
	case "%[3]s" in umount*) umount -l "$1";; exportfs*) exportfs -f;; esac
	for i in $(seq 300); do gone "$1" && return; sleep 0.1; done
	umount "$1"
}
%[4]s || exit 1
echo "unmounting what clients use: $said"
`, base, mountedSmall, by, sidesRemount, tries)
}
