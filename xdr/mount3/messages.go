// The procedures' arguments and results (RFC 1813 §5.2).

package mount3

import "github.com/nfsrdma/nfsrdma/xdr"

// A PathArgs has the arguments for MNT and UMNT: a directory's path.
type PathArgs struct{ Path string }

// EncodeXDR appends the path.
func (a *PathArgs) EncodeXDR(e *xdr.Encoder) { xdr.MustMarshal(e, a) }

// DecodeXDR reads a path; a path longer than MaxPath fails with xdr.ErrLimit.
func (a *PathArgs) DecodeXDR(d *xdr.Decoder) {
	*a = PathArgs{}
	unmarshal(d, a, 4+MaxPath)
	d.CheckLimit(len(a.Path), MaxPath)
}

// A MntRes is MNT's result. The error arm has only Status.
type MntRes struct {
	Status  Status   `xdr:"union"`
	Handle  []byte   `xdr:"unioncase=0"` // the directory's NFSv3 handle
	Flavors []uint32 `xdr:"unioncase=0"` // authentication flavors, best first
}

// EncodeXDR appends the result.
func (r *MntRes) EncodeXDR(e *xdr.Encoder) { xdr.MustMarshal(e, r) }

// DecodeXDR reads a result; a handle over 64 bytes, or more than MaxFlavor flavors, fail with
// xdr.ErrLimit.
func (r *MntRes) DecodeXDR(d *xdr.Decoder) {
	*r = MntRes{}
	unmarshal(d, r, 4+4+MaxHandle+4+4*MaxFlavor)
	d.CheckLimit(len(r.Handle), MaxHandle)
	d.CheckLimit(len(r.Flavors), MaxFlavor)
}

// A Mount is one DUMP entry: a client host and its mounted directory (mountbody).
type Mount struct{ Host, Dir string }

// A DumpRes is DUMP's result.
type DumpRes struct{ Mounts []Mount }

// EncodeXDR appends the list.
func (r *DumpRes) EncodeXDR(e *xdr.Encoder) {
	for i := range r.Mounts {
		e.Bool(true)
		xdr.MustMarshal(e, &r.Mounts[i])
	}
	e.Bool(false)
}

// DecodeXDR reads a list; names over their limits fail with xdr.ErrLimit.
func (r *DumpRes) DecodeXDR(d *xdr.Decoder) {
	r.Mounts = nil
	for start := d.Offset(); d.Bool(); {
		var m Mount
		unmarshal(d, &m, 8+xdr.RoundUp(maxName)+MaxPath)
		d.CheckLimit(len(m.Host), maxName)
		d.CheckLimit(len(m.Dir), MaxPath)
		if d.CheckLimit(d.Offset()-start, MaxList); d.Err() != nil {
			return
		}
		r.Mounts = append(r.Mounts, m)
	}
}

// An Export is one EXPORT entry: a directory, and the groups that may mount the directory; no
// groups means everyone (exportnode).
type Export struct {
	Dir    string
	Groups []string
}

// An ExportRes is EXPORT's result.
type ExportRes struct{ Exports []Export }

// EncodeXDR appends the list.
func (r *ExportRes) EncodeXDR(e *xdr.Encoder) {
	for _, x := range r.Exports {
		e.Bool(true)
		xdr.MustMarshal(e, &PathArgs{x.Dir})
		for _, g := range x.Groups {
			e.Bool(true)
			xdr.MustMarshal(e, &group{g})
		}
		e.Bool(false)
	}
	e.Bool(false)
}

// DecodeXDR reads a list; names over their limits fail with xdr.ErrLimit.
func (r *ExportRes) DecodeXDR(d *xdr.Decoder) {
	r.Exports = nil
	for start := d.Offset(); d.Bool(); {
		var p PathArgs
		p.DecodeXDR(d)
		x := Export{Dir: p.Path, Groups: decodeGroups(d)}
		if d.CheckLimit(d.Offset()-start, MaxList); d.Err() != nil {
			return
		}
		r.Exports = append(r.Exports, x)
	}
}

type group struct{ Name string }

func decodeGroups(d *xdr.Decoder) []string {
	var list []string
	for start := d.Offset(); d.Bool(); {
		var g group
		unmarshal(d, &g, 4+xdr.RoundUp(maxName))
		d.CheckLimit(len(g.Name), maxName)
		if d.CheckLimit(d.Offset()-start, MaxList); d.Err() != nil {
			return nil
		}
		list = append(list, g.Name)
	}
	return list
}

// unmarshal reads v, one element of a message, from at most limit bytes. The error stays in the
// Decoder.
func unmarshal(d *xdr.Decoder, v any, limit int) { _ = xdr.Unmarshal(d, v, limit) }
