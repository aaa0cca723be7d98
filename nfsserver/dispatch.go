// The table of the 22 procedures (RFC 1813 §3.3).

package nfsserver

import (
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// nfsProgram is NFS version 3. Inline are the procedures that ask no more than
// the attributes of an object in use, provided that all FSs have them at hand.
func (s *Server) nfsProgram() *transport.Program {
	quick := true
	for _, x := range s.exports {
		quick = quick && x.info.Quick
	}
	// To find out groups may take a directory service, which no other call waits for.
	local := quick && !s.squash.ManageGIDs
	procs := []transport.Procedure{
		nfs3.ProcNull:        {Run: null, Inline: true, Idempotent: true},
		nfs3.ProcGetattr:     {Run: adapt(s, getattr), Inline: quick, Idempotent: true},
		nfs3.ProcSetattr:     {Run: adapt(s, setattr)},
		nfs3.ProcLookup:      {Run: adapt(s, lookup), Idempotent: true},
		nfs3.ProcAccess:      {Run: adapt(s, access), Inline: local, Idempotent: true},
		nfs3.ProcReadlink:    {Run: adapt(s, readlink), Idempotent: true},
		nfs3.ProcRead:        {Run: adapt(s, read), Idempotent: true},
		nfs3.ProcWrite:       {Run: adapt(s, write), Idempotent: true, NoOverlap: true},
		nfs3.ProcCreate:      {Run: adapt(s, create)},
		nfs3.ProcMkdir:       {Run: adapt(s, mkdir)},
		nfs3.ProcSymlink:     {Run: adapt(s, symlink)},
		nfs3.ProcMknod:       {Run: adapt(s, mknod)},
		nfs3.ProcRemove:      {Run: adapt(s, remove)},
		nfs3.ProcRmdir:       {Run: adapt(s, rmdir)},
		nfs3.ProcRename:      {Run: adapt(s, rename)},
		nfs3.ProcLink:        {Run: adapt(s, link)},
		nfs3.ProcReaddir:     {Run: adapt(s, readdir), Idempotent: true},
		nfs3.ProcReaddirplus: {Run: adapt(s, readdirplus), Idempotent: true},
		nfs3.ProcFsstat:      {Run: adapt(s, fsstat), Idempotent: true},
		nfs3.ProcFsinfo:      {Run: adapt(s, fsinfo), Inline: quick, Idempotent: true},
		nfs3.ProcPathconf:    {Run: adapt(s, pathconf), Inline: quick, Idempotent: true},
		nfs3.ProcCommit:      {Run: adapt(s, commit), Idempotent: true},
	}
	for i := range procs {
		b := &nfs3.Bindings[i]
		procs[i].Name, procs[i].ArgItem = b.Name, b.ArgItem
	}
	return &transport.Program{Name: "nfs", Number: nfs3.Program, Version: nfs3.Version, Procs: procs}
}

// null does nothing (RFC 1813 §3.3.0).
func null(*transport.Call) error { return nil }
