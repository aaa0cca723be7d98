// The MOUNT program, version 3 (RFC 1813 appendix I).

package nfsserver

import (
	"path"
	"strings"
	"syscall"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/mount3"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// mountProgram returns the table of the six procedures (RFC 1813 §5.2).
func (s *Server) mountProgram() *transport.Program {
	procs := []transport.Procedure{
		mount3.ProcNull:    {Name: "NULL", Run: null, Inline: true, Idempotent: true},
		mount3.ProcMnt:     {Name: "MNT", Run: s.mnt, Lane: s.laneByPath, Busy: mntBusy, Idempotent: true},
		mount3.ProcDump:    {Name: "DUMP", Run: s.dump, Idempotent: true},
		mount3.ProcUmnt:    {Name: "UMNT", Run: s.umnt, Idempotent: true},
		mount3.ProcUmntall: {Name: "UMNTALL", Run: s.umntall, Idempotent: true},
		mount3.ProcExport:  {Name: "EXPORT", Run: s.export, Idempotent: true},
	}
	return &transport.Program{Name: "mount", Number: mount3.Program, Version: mount3.Version, Procs: procs, Lanes: s.Names(), Authorize: s.authorize}
}

// flavors are the accepted flavors without sec=: AUTH_SYS, and AUTH_NONE, with callers as Nobody.
var flavors = []uint32{uint32(oncrpc.FlavorSys), uint32(oncrpc.FlavorNone)}

// mnt does MNT. It logs each result and records each success for DUMP.
func (s *Server) mnt(c *transport.Call) error {
	var a mount3.PathArgs
	a.DecodeXDR(c.Args)
	if err := c.ArgsErr(); err != nil {
		return err
	}
	var res mount3.MntRes
	o, err := s.mountPoint(c, a.Path)
	var fh nfs3.FH
	if err == nil {
		if fh = s.fh(o.x, &o.ref); fh.Len() == 0 {
			err = nfs3.ErrServerFault
		}
	}
	if err == nil {
		res.Handle, res.Flavors = fh.Bytes(), o.may.mountFlavors()
		s.mounts.add(host(c), a.Path)
	}
	res.Status = mountStatus(err)
	exported := ""
	if o.x != nil {
		exported = o.x.name
	}
	s.logMount(c, a.Path, exported, res.Status)
	res.EncodeXDR(c.Res)
	return nil
}

// maxLinks bounds the symbolic links on a path of MNT, as in path_resolution(7).
const maxLinks = 40

// mountPoint finds a path's directory: an export, or a directory inside an export that the caller
// can reach. It follows symbolic links within an export and into other exports, under those
// exports' rules, but never out of all exports.
func (s *Server) mountPoint(c *transport.Call, p string) (o object, err error) {
	for range maxLinks + 1 {
		switch {
		case !strings.HasPrefix(p, "/"):
			return o, nfs3.ErrNoEnt
		case len(p) > mount3.MaxPath:
			return o, nfs3.ErrNameTooLong
		}
		if o, p, err = s.walkTo(c, path.Clean(p)); p == "" {
			return o, err
		}
	}
	return o, syscall.ELOOP
}

// walkTo finds a clean path's directory. At a symbolic link on the path it returns, in meant, the
// path at which to continue.
func (s *Server) walkTo(c *transport.Call, p string) (o object, meant string, err error) {
	e, at, may, err := s.above(c, p)
	if err != nil {
		return o, "", err
	}
	x := e.x
	defer x.leave()
	if err := x.mountable(); err != nil {
		return o, "", err
	}
	rest := strings.Trim(strings.TrimPrefix(p, at), "/")
	if x.trees != nil {
		if x, rest, err = x.trees.mount(c, rest); err != nil {
			return o, "", err
		}
		defer x.leave()
		at = strings.TrimSuffix(strings.TrimSuffix(p, rest), "/")
	}
	w := s.who(c, may)
	o = object{x, x.root, may}
	for rest != "" {
		var name string
		name, rest, _ = strings.Cut(rest, "/")
		if err := o.isDir(); err != nil {
			return o, "", err
		}
		if err := checkName(x, []byte(name)); err != nil {
			return o, "", err
		}
		var found Attr
		if o.ref, found, err = x.fs.Lookup(w, o.ref, name); err != nil {
			return o, "", err
		}
		if found.Type == TypeSymlink {
			target, err := x.fs.Readlink(w, o.ref)
			if err != nil {
				return o, "", err
			}
			if !path.IsAbs(target) {
				target = at + "/" + target
			}
			return o, target + "/" + rest, nil
		}
		at = path.Join(at, name)
	}
	return o, "", o.isDir()
}

// isDir returns an error unless o is a directory.
func (o *object) isDir() error {
	at, err := o.attr()
	if err == nil && at.Type != TypeDir {
		err = nfs3.ErrNotDir
	}
	return err
}

// mountStatus maps an error to a mountstat3, whose errors have the same numbers in nfsstat3.
func mountStatus(err error) mount3.Status {
	switch st := mount3.Status(status(err)); st {
	case mount3.OK, mount3.ErrPerm, mount3.ErrNoEnt, mount3.ErrIO, mount3.ErrAcces, mount3.ErrNotDir, mount3.ErrInval,
		mount3.ErrNameTooLong, mount3.ErrNotSupp:
		return st
	case mount3.Status(nfs3.ErrStale):
		return mount3.ErrNoEnt
	}
	return mount3.ErrServerFault
}

// umnt does UMNT. It only removes the entry from the list: the client's handles stay valid.
func (s *Server) umnt(c *transport.Call) error {
	var a mount3.PathArgs
	a.DecodeXDR(c.Args)
	if err := c.ArgsErr(); err != nil {
		return err
	}
	s.logUmount(c, s.mounts.remove(host(c), a.Path))
	return nil
}

func (s *Server) umntall(c *transport.Call) error {
	s.logUmount(c, s.mounts.removeAll(host(c)))
	return nil
}

// dump does DUMP. It first reserves room for the list, which may exceed the reply's buffer.
func (s *Server) dump(c *transport.Call) error {
	res := mount3.DumpRes{Mounts: s.mounts.list()}
	n := 4
	for _, m := range res.Mounts {
		n += 4 + xdr.RoundUp(4+len(m.Host)) + xdr.RoundUp(4+len(m.Dir))
	}
	if !c.Room(n) {
		return transport.ErrSystem
	}
	res.EncodeXDR(c.Res)
	return nil
}

// export does EXPORT: it lists the exports with their client specifications, for showmount.
func (s *Server) export(c *transport.Call) error {
	var res mount3.ExportRes
	n := 4
	for _, e := range s.table.Load().entries {
		row := mount3.Export{Dir: e.x.name}
		if e.rules != nil {
			row.Groups = e.rules.Specs()
		}
		n += 12 + xdr.RoundUp(len(row.Dir))
		for _, g := range row.Groups {
			n += 8 + xdr.RoundUp(len(g))
		}
		res.Exports = append(res.Exports, row)
	}
	if !c.Room(n) {
		return transport.ErrSystem
	}
	res.EncodeXDR(c.Res)
	return nil
}

// laneByPath returns the lane for a MNT: the lane of the export at the path's start, before any
// symbolic link.
func (s *Server) laneByPath(c *transport.Call) (lane int) {
	args := *c.Args
	var a mount3.PathArgs
	a.DecodeXDR(&args)
	if args.Err() != nil {
		return -1
	}
	if above := s.table.Load().above(path.Clean(a.Path)); len(above) > 0 {
		return above[0].e.x.lane
	}
	return -1
}

// mntBusy is the Busy function of MNT, which has no status for a busy server.
func mntBusy(c *transport.Call) {
	res := mount3.MntRes{Status: mount3.ErrServerFault}
	res.EncodeXDR(c.Res)
}
