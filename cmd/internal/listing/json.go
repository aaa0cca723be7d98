// ls --json: an array with an object for each name, written incrementally.

package listing

import (
	"encoding/base64"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/nfsrdma/nfsrdma/cmd/internal/text"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// An Object is a file's JSON form in ls and stat. JSON cannot hold names that are not UTF-8; base64
// fields have their bytes.
type Object struct {
	Name       string  `json:"name"`                  // without its directory
	NameBase64 string  `json:"name_base64,omitempty"` // the name's bytes, if they are no UTF-8
	Directory  string  `json:"directory,omitempty"`   // as it was typed, and what is below
	Type       string  `json:"type"`                  // such as regular file, directory or symbolic link
	Mode       string  `json:"mode"`                  // octal
	Links      uint32  `json:"links"`                 // hard links
	UID        uint32  `json:"uid"`                   // the owner
	GID        uint32  `json:"gid"`                   // the group
	Size       uint64  `json:"size"`                  // bytes
	Used       uint64  `json:"used"`                  // bytes on the disk
	Fsid       uint64  `json:"fsid"`                  // its file system's number
	Fileid     uint64  `json:"fileid"`                // the inode number
	Device     *Device `json:"device,omitempty"`      // of device files
	Target     *string `json:"target,omitempty"`      // of a symbolic link
	// the target's bytes, if they are no UTF-8
	TargetBase64 string    `json:"target_base64,omitempty"`
	Handle       string    `json:"handle,omitempty"` // of NFS, in hex: of stat
	Atime        time.Time `json:"atime"`            // the last access
	Mtime        time.Time `json:"mtime"`            // the last content change
	Ctime        time.Time `json:"ctime"`            // the last attribute change
}

// A Device is a device's number.
type Device struct {
	Major uint32 `json:"major"` // the driver's number
	Minor uint32 `json:"minor"` // the device's number
}

func newObject(name string, a *nfs3.Fattr) *Object {
	mode := nfsclient.GoMode(a.Type, a.Mode)
	o := &Object{
		Name: name, NameBase64: notUTF8(name), Type: text.TypeName(mode), Mode: fmt.Sprintf("%04o", a.Mode&0o7777),
		Links: a.Nlink, UID: a.UID, GID: a.GID, Size: a.Size, Used: a.Used, Fsid: a.Fsid, Fileid: a.Fileid,
		Atime: a.Atime.Time().UTC(), Mtime: a.Mtime.Time().UTC(), Ctime: a.Ctime.Time().UTC(),
	}
	if isDevice(a) {
		o.Device = &Device{a.Rdev.Major, a.Rdev.Minor}
	}
	return o
}

// withTarget sets a symbolic link's target.
func (o *Object) withTarget(target string) {
	o.Target, o.TargetBase64 = &target, notUTF8(target)
}

// notUTF8 returns the base64 form of a string that JSON cannot hold, and "" for others.
func notUTF8(s string) string {
	if utf8.ValidString(s) {
		return ""
	}
	return base64.StdEncoding.EncodeToString([]byte(s))
}

// jsonRow writes a row into the array.
func (l *Run) jsonRow(d dir, r *row) {
	if r.attr == nil {
		return // the error was already reported
	}
	o := newObject(r.name, r.attr)
	o.Directory = d.shown
	if r.attr.Type == nfs3.TypeLnk && r.more != nil {
		o.withTarget(r.more.target)
	}
	l.json.Item(o)
}
