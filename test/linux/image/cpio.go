// The archive with the kernel's initial file system ("newc" format).

package image

import (
	"bytes"
	"fmt"
	"io"
	"path"
)

// archive writes entries owned by root, and missing parents.
type archive struct {
	w    io.Writer
	err  error // the first error; later entries are skipped
	ino  int
	seen map[string]bool
}

const (
	modeDir  = 0o040755
	modeLink = 0o120777
	modeFile = 0o100000
)

func newArchive(w io.Writer) *archive {
	return &archive{w: w, seen: map[string]bool{".": true, "/": true}}
}

func (a *archive) dir(name string) {
	if a.seen[name] {
		return
	}
	a.entry(name, modeDir, nil)
}

func (a *archive) file(name string, perm int, data []byte) { a.entry(name, modeFile|perm, data) }

func (a *archive) link(name, target string) { a.entry(name, modeLink, []byte(target)) }

func (a *archive) has(name string) bool { return a.seen[name] }

func (a *archive) entry(name string, mode int, data []byte) {
	if parent := path.Dir(name); !a.seen[parent] {
		a.dir(parent)
	}
	a.seen[name] = true
	a.ino++
	a.put(name, mode, data)
}

func (a *archive) put(name string, mode int, data []byte) {
	if a.err != nil {
		return
	}
	var head bytes.Buffer
	head.WriteString("070701")
	// ino mode uid gid nlink mtime filesize devmajor devminor rdevmajor rdevminor namesize check
	for _, v := range []int{a.ino, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0} {
		fmt.Fprintf(&head, "%08X", v)
	}
	head.WriteString(name + "\x00")
	pad(&head)
	if _, a.err = a.w.Write(head.Bytes()); a.err != nil {
		return
	}
	if _, a.err = a.w.Write(data); a.err == nil {
		_, a.err = a.w.Write(make([]byte, -len(data)&3))
	}
}

func pad(b *bytes.Buffer) { b.Write(make([]byte, -b.Len()&3)) }

func (a *archive) close() error {
	a.ino = 0
	a.put("TRAILER!!!", 0, nil)
	return a.err
}
