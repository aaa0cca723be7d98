// FSSTAT, FSINFO and PATHCONF (RFC 1813 §3.3.18 to §3.3.20).

package nfsserver

import (
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

func (s *Server) fsstat(c *transport.Call) error {
	var a nfs3.FsstatArgs
	a.DecodeXDR(c.Args)
	if err := c.ArgsErr(); err != nil {
		return err
	}
	var res nfs3.FsstatRes
	o, err := s.open(&a.FH)
	if err == nil {
		var st Statfs
		st, err = o.x.fs.Statfs(o.ref)
		res = nfs3.FsstatRes{Attr: o.post(), Tbytes: st.TotalBytes, Fbytes: st.FreeBytes, Abytes: st.AvailBytes,
			Tfiles: st.TotalFiles, Ffiles: st.FreeFiles, Afiles: st.AvailFiles}
	}
	res.Status = status(err)
	res.EncodeXDR(c.Res)
	return nil
}

func (s *Server) fsinfo(c *transport.Call) error {
	var a nfs3.FsinfoArgs
	a.DecodeXDR(c.Args)
	if err := c.ArgsErr(); err != nil {
		return err
	}
	var res nfs3.FsinfoRes
	o, err := s.open(&a.FH)
	if err == nil {
		var at Attr
		if at, err = o.getattr(); err == nil {
			in := &o.x.info
			res = nfs3.FsinfoRes{Attr: postOp(&at), Rtmax: MaxIO, Rtpref: MaxIO, Rtmult: 4096, Wtmax: MaxIO, Wtpref: MaxIO, Wtmult: 4096,
				Dtpref: preferredDir, Maxfilesize: in.MaxFileSize, TimeDelta: wireTime(in.TimeDelta), Properties: properties(in)}
		}
	}
	res.Status = status(err)
	res.EncodeXDR(c.Res)
	return nil
}

// properties is the FSF bits of an FS.
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

func (s *Server) pathconf(c *transport.Call) error {
	var a nfs3.PathconfArgs
	a.DecodeXDR(c.Args)
	if err := c.ArgsErr(); err != nil {
		return err
	}
	var res nfs3.PathconfRes
	o, err := s.open(&a.FH)
	if err == nil {
		var at Attr
		if at, err = o.getattr(); err == nil {
			in := &o.x.info
			res = nfs3.PathconfRes{Attr: postOp(&at), Linkmax: in.LinkMax, NameMax: in.NameMax, NoTrunc: true,
				ChownRestricted: true, CaseInsensitive: in.CaseInsensitive, CasePreserving: true}
		}
	}
	res.Status = status(err)
	res.EncodeXDR(c.Res)
	return nil
}
