// go-xdr as oracle: its bytes and ours must be equal.

package nfs3

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	goxdr "github.com/rasky/go-xdr/xdr2"
)

// The optional parts, in go-xdr's form.
type (
	oAttr struct {
		A *Fattr `xdr:"optional"`
	}
	oPre struct {
		A *WccAttr `xdr:"optional"`
	}
	oFH struct {
		H *[]byte `xdr:"optional"`
	}
	oWcc struct {
		Before oPre
		After  oAttr
	}
	oSattr struct {
		Mode     *uint32 `xdr:"optional"`
		UID      *uint32 `xdr:"optional"`
		GID      *uint32 `xdr:"optional"`
		Size     *uint64 `xdr:"optional"`
		AtimeHow uint32  `xdr:"union"`
		Atime    Time    `xdr:"unioncase=2"`
		MtimeHow uint32  `xdr:"union"`
		Mtime    Time    `xdr:"unioncase=2"`
	}
)

func attr(p PostOpAttr) (o oAttr) {
	if p.Present {
		o.A = &p.Attr
	}
	return o
}

func wcc(w WccData) (o oWcc) {
	if w.Before.Present {
		o.Before.A = &w.Before.Attr
	}
	o.After = attr(w.After)
	return o
}

func handle(p PostOpFH) (o oFH) {
	if p.Present {
		b := p.FH.Bytes()
		o.H = &b
	}
	return o
}

func opt[T any](set bool, v T) *T {
	if set {
		return &v
	}
	return nil
}

func sattr(s Sattr) oSattr {
	return oSattr{
		Mode: opt(s.SetMode, s.Mode), UID: opt(s.SetUID, s.UID), GID: opt(s.SetGID, s.GID), Size: opt(s.SetSize, s.Size),
		AtimeHow: uint32(s.AtimeHow), Atime: s.Atime, MtimeHow: uint32(s.MtimeHow), Mtime: s.Mtime,
	}
}

// arms returns a result's parts: status and ok, or status and the error arm.
func arms(s Status, ok, failed []any) []any {
	if s == OK {
		return append([]any{s}, ok...)
	}
	return append([]any{s}, failed...)
}

type parts = []any

func where(a DirOpArgs) parts { return parts{a.Dir.Bytes(), a.Name} }

// join concatenates lists of parts.
func join(lists ...parts) (all parts) {
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

// partsOf returns a message's parts, in RFC 1813's order.
func partsOf(m message) parts {
	switch m := m.(type) {
	case *FHArgs:
		return parts{m.FH.Bytes()}
	case *SetattrArgs:
		guard := struct {
			T *Time `xdr:"optional"`
		}{opt(m.Guard, m.GuardCtime)}
		return parts{m.FH.Bytes(), sattr(m.Attr), guard}
	case *DirOpArgs:
		return where(*m)
	case *AccessArgs:
		return parts{m.FH.Bytes(), m.Access}
	case *ReadArgs:
		return parts{m.FH.Bytes(), m.Offset, m.Count}
	case *WriteArgs:
		return parts{m.FH.Bytes(), m.Offset, m.Count, m.Stable, m.Data}
	case *CreateArgs:
		if m.Mode == Exclusive {
			return join(where(m.Where), parts{m.Mode, m.Verf})
		}
		return join(where(m.Where), parts{m.Mode, sattr(m.Attr)})
	case *MkdirArgs:
		return join(where(m.Where), parts{sattr(m.Attr)})
	case *SymlinkArgs:
		return join(where(m.Where), parts{sattr(m.Attr), m.Path})
	case *MknodArgs:
		switch m.Type {
		case TypeBlk, TypeChr:
			return join(where(m.Where), parts{m.Type, sattr(m.Attr), m.Rdev})
		case TypeSock, TypeFIFO:
			return join(where(m.Where), parts{m.Type, sattr(m.Attr)})
		}
		return join(where(m.Where), parts{m.Type})
	case *RenameArgs:
		return join(where(m.From), where(m.To))
	case *LinkArgs:
		return join(parts{m.FH.Bytes()}, where(m.Link))
	case *ReaddirArgs:
		return parts{m.Dir.Bytes(), m.Cookie, m.Verf, m.Count}
	case *ReaddirplusArgs:
		return parts{m.Dir.Bytes(), m.Cookie, m.Verf, m.Dircount, m.Maxcount}
	}
	return partsOfResult(m)
}

func partsOfResult(m message) parts {
	switch m := m.(type) {
	case *GetattrRes:
		return arms(m.Status, parts{m.Attr}, nil)
	case *WccRes:
		return parts{m.Status, wcc(m.Wcc)}
	case *LookupRes:
		return arms(m.Status, parts{m.FH.Bytes(), attr(m.Attr), attr(m.DirAttr)}, parts{attr(m.DirAttr)})
	case *AccessRes:
		return arms(m.Status, parts{attr(m.Attr), m.Access}, parts{attr(m.Attr)})
	case *ReadlinkRes:
		return arms(m.Status, parts{attr(m.Attr), m.Path}, parts{attr(m.Attr)})
	case *ReadRes:
		return arms(m.Status, parts{attr(m.Attr), m.Count, m.EOF, m.Data}, parts{attr(m.Attr)})
	case *WriteRes:
		return arms(m.Status, parts{wcc(m.Wcc), m.Count, m.Committed, m.Verf}, parts{wcc(m.Wcc)})
	case *CreateRes:
		return arms(m.Status, parts{handle(m.FH), attr(m.Attr), wcc(m.DirWcc)}, parts{wcc(m.DirWcc)})
	case *RenameRes:
		return parts{m.Status, wcc(m.FromWcc), wcc(m.ToWcc)}
	case *LinkRes:
		return parts{m.Status, attr(m.Attr), wcc(m.DirWcc)}
	case *ReaddirRes:
		list := parts{attr(m.DirAttr), m.Verf}
		for _, n := range m.Entries {
			list = append(list, true, n.Fileid, n.Name, n.Cookie)
		}
		return arms(m.Status, append(list, false, m.EOF), parts{attr(m.DirAttr)})
	case *ReaddirplusRes:
		list := parts{attr(m.DirAttr), m.Verf}
		for _, n := range m.Entries {
			list = append(list, true, n.Fileid, n.Name, n.Cookie, attr(n.Attr), handle(n.FH))
		}
		return arms(m.Status, append(list, false, m.EOF), parts{attr(m.DirAttr)})
	case *FsstatRes:
		return arms(m.Status, parts{attr(m.Attr), m.Tbytes, m.Fbytes, m.Abytes, m.Tfiles, m.Ffiles, m.Afiles, m.Invarsec}, parts{attr(m.Attr)})
	case *FsinfoRes:
		return arms(m.Status, parts{attr(m.Attr), m.Rtmax, m.Rtpref, m.Rtmult, m.Wtmax, m.Wtpref, m.Wtmult, m.Dtpref,
			m.Maxfilesize, m.TimeDelta, m.Properties}, parts{attr(m.Attr)})
	case *PathconfRes:
		return arms(m.Status, parts{attr(m.Attr), m.Linkmax, m.NameMax, m.NoTrunc, m.ChownRestricted, m.CaseInsensitive, m.CasePreserving},
			parts{attr(m.Attr)})
	case *CommitRes:
		return arms(m.Status, parts{wcc(m.Wcc), m.Verf}, parts{wcc(m.Wcc)})
	}
	panic(fmt.Sprintf("no oracle for %T", m))
}

// oracle returns go-xdr's bytes for m.
func oracle(t *testing.T, m message) []byte {
	t.Helper()
	var w bytes.Buffer
	for _, p := range partsOf(m) {
		if _, err := goxdr.Marshal(&w, p); err != nil {
			t.Fatalf("%T: %T: %v", m, p, err)
		}
	}
	return w.Bytes()
}

func TestOracle(t *testing.T) {
	r := rand.New(rand.NewPCG(1813, 4506))
	for _, p := range messages {
		for range 200 {
			for _, m := range []message{p.args(), p.res()} {
				fill(r, m)
				if got, want := whole(m), oracle(t, m); !bytes.Equal(got, want) {
					t.Fatalf("%s %T: encoded\n%x, go-xdr has\n%x\n%+v", Bindings[p.proc].Name, m, got, want, m)
				}
			}
		}
	}
}
