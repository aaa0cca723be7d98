// FSSTAT, FSINFO and PATHCONF (RFC 1813 §3.3.18 to §3.3.20).

package nfsserver

import "github.com/nfsrdma/nfsrdma/xdr/nfs3"

func fsstat(q *request, _ *nfs3.FsstatArgs, res *nfs3.FsstatRes) error {
	st, err := q.x.fs.Statfs(q.ref)
	*res = nfs3.FsstatRes{Attr: q.post(), Tbytes: st.TotalBytes, Fbytes: st.FreeBytes, Abytes: st.AvailBytes,
		Tfiles: st.TotalFiles, Ffiles: st.FreeFiles, Afiles: st.AvailFiles}
	return err
}

func fsinfo(q *request, _ *nfs3.FsinfoArgs, res *nfs3.FsinfoRes) error {
	if err := q.busyUnlessQuick(false); err != nil {
		return err
	}
	at, err := q.attr()
	if err != nil {
		return err
	}
	in := &q.x.info
	*res = nfs3.FsinfoRes{Attr: postOp(&at), Rtmax: MaxIO, Rtpref: MaxIO, Rtmult: 4096, Wtmax: MaxIO, Wtpref: MaxIO, Wtmult: 4096,
		Dtpref: preferredDir, Maxfilesize: in.MaxFileSize, TimeDelta: wireTime(in.TimeDelta), Properties: properties(in)}
	return nil
}

// properties returns the FSF bits of an FS.
func properties(in *Info) uint32 {
	p := nfs3.FSFHomogeneous | nfs3.FSFCanSetTime
	if in.HardLinks {
		p |= nfs3.FSFLink
	}
	if in.Symlinks {
		p |= nfs3.FSFSymlink
	}
	return p
}

func pathconf(q *request, _ *nfs3.PathconfArgs, res *nfs3.PathconfRes) error {
	if err := q.busyUnlessQuick(false); err != nil {
		return err
	}
	at, err := q.attr()
	if err != nil {
		return err
	}
	in := &q.x.info
	*res = nfs3.PathconfRes{Attr: postOp(&at), Linkmax: in.LinkMax, NameMax: in.NameMax, NoTrunc: true,
		ChownRestricted: true, CaseInsensitive: in.CaseInsensitive, CasePreserving: true}
	return nil
}
