// The table of NFS's 22 procedures (RFC 1813 §3.3).

package nfsserver

import (
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// nfsProgram returns NFS version 3. Inline marks the procedures that often need no disk; each call
// decides that itself (busyUnlessQuick).
func (s *Server) nfsProgram() *transport.Program {
	procs := []transport.Procedure{
		nfs3.ProcNull:        {Run: null, Inline: true, Idempotent: true},
		nfs3.ProcGetattr:     {Run: adaptAtMount(s, getattr), Busy: busy(getattr), Inline: true, Idempotent: true},
		nfs3.ProcSetattr:     {Run: adaptChange(s, setattr, describeSetattr), Busy: busy(setattr)},
		nfs3.ProcLookup:      {Run: adapt(s, lookup), Busy: busy(lookup), Inline: true, Idempotent: true},
		nfs3.ProcAccess:      {Run: adapt(s, access), Busy: busy(access), Inline: true, Idempotent: true},
		nfs3.ProcReadlink:    {Run: adapt(s, readlink), Busy: busy(readlink), Idempotent: true},
		nfs3.ProcRead:        {Run: adapt(s, read), Busy: busy(read), Inline: true, Idempotent: true},
		nfs3.ProcWrite:       {Run: adapt(s, write), Busy: busy(write), Inline: true, Idempotent: true, NoOverlap: true},
		nfs3.ProcCreate:      {Run: adaptChange(s, create, describeCreate), Busy: busy(create)},
		nfs3.ProcMkdir:       {Run: adaptChange(s, mkdir, describeMkdir), Busy: busy(mkdir)},
		nfs3.ProcSymlink:     {Run: adaptChange(s, symlink, describeSymlink), Busy: busy(symlink)},
		nfs3.ProcMknod:       {Run: adaptChange(s, mknod, describeMknod), Busy: busy(mknod)},
		nfs3.ProcRemove:      {Run: adaptChange(s, remove, describeRemove), Busy: busy(remove)},
		nfs3.ProcRmdir:       {Run: adaptChange(s, rmdir, describeRmdir), Busy: busy(rmdir)},
		nfs3.ProcRename:      {Run: adaptChange(s, rename, describeRename), Busy: busy(rename)},
		nfs3.ProcLink:        {Run: adaptChange(s, link, describeLink), Busy: busy(link)},
		nfs3.ProcReaddir:     {Run: adapt(s, readdir), Busy: busy(readdir), Idempotent: true},
		nfs3.ProcReaddirplus: {Run: adapt(s, readdirplus), Busy: busy(readdirplus), Idempotent: true},
		nfs3.ProcFsstat:      {Run: adapt(s, fsstat), Busy: busy(fsstat), Idempotent: true},
		nfs3.ProcFsinfo:      {Run: adaptAtMount(s, fsinfo), Busy: busy(fsinfo), Inline: true, Idempotent: true},
		nfs3.ProcPathconf:    {Run: adapt(s, pathconf), Busy: busy(pathconf), Inline: true, Idempotent: true},
		nfs3.ProcCommit:      {Run: adapt(s, commit), Busy: busy(commit), Idempotent: true},
	}
	for i := range procs {
		b := &nfs3.Bindings[i]
		procs[i].Name, procs[i].ArgItem = b.Name, b.ArgItem
		if uint32(i) != nfs3.ProcNull {
			procs[i].Lane = s.laneByHandle
		}
	}
	return &transport.Program{Name: "nfs", Number: nfs3.Program, Version: nfs3.Version, Procs: procs, Lanes: s.Names(), Authorize: s.authorizeNFS}
}

// null does nothing (RFC 1813 §3.3.0).
func null(*transport.Call) error { return nil }
