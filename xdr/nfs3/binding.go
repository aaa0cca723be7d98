// NFSv3's binding to RPC-over-RDMA: the chunk-eligible items, and the largest replies (RFC 8267).

package nfs3

import "github.com/nfsrdma/nfsrdma/xdr"

// Grows names the value that adds to a reply's size.
type Grows uint8

// The values that add to a reply's size.
const (
	GrowsNot      Grows = iota
	GrowsPath           // READLINK: the client's own limit for paths
	GrowsCount          // READ, READDIR: the count argument
	GrowsMaxcount       // READDIRPLUS: the maxcount argument
)

// A Binding describes one procedure to RPC-over-RDMA. Only items named by the protocol's binding
// are chunk-eligible (RFC 8166 §3.4.2 [R8166-043]): WRITE data, SYMLINK path, READ data, READLINK
// path.
type Binding struct {
	Name    string
	ArgItem bool // one argument may travel as a Read chunk
	ResItem bool // one result may travel as a Write chunk
	// MaxReply is the largest result in bytes in any arm, including status, without RPC header.
	// The result item with its pad, or the value named by Grows, is additional (see Extra).
	MaxReply int
	Grows    Grows
}

// Sizes of result parts in bytes, including all optional parts.
const (
	statusSize = 4
	postOpAttr = 4 + fattrSize
	wccData    = 4 + 24 + postOpAttr
	postOpFH   = 4 + 4 + FHSize
	createRes  = statusSize + postOpFH + postOpAttr + wccData
	// dirSlack allows for servers that apply READDIR's count to the entries only, although the
	// count means the whole result.
	dirSlack = 128
)

// Bindings has a row for each procedure number.
var Bindings = [NumProcs]Binding{
	ProcNull:        {Name: "NULL"},
	ProcGetattr:     {Name: "GETATTR", MaxReply: statusSize + fattrSize},
	ProcSetattr:     {Name: "SETATTR", MaxReply: statusSize + wccData},
	ProcLookup:      {Name: "LOOKUP", MaxReply: statusSize + 4 + FHSize + 2*postOpAttr},
	ProcAccess:      {Name: "ACCESS", MaxReply: statusSize + postOpAttr + 4},
	ProcReadlink:    {Name: "READLINK", ResItem: true, MaxReply: statusSize + postOpAttr + 4, Grows: GrowsPath},
	ProcRead:        {Name: "READ", ResItem: true, MaxReply: statusSize + postOpAttr + 4 + 4 + 4, Grows: GrowsCount},
	ProcWrite:       {Name: "WRITE", ArgItem: true, MaxReply: statusSize + wccData + 4 + 4 + verfSize},
	ProcCreate:      {Name: "CREATE", MaxReply: createRes},
	ProcMkdir:       {Name: "MKDIR", MaxReply: createRes},
	ProcSymlink:     {Name: "SYMLINK", ArgItem: true, MaxReply: createRes},
	ProcMknod:       {Name: "MKNOD", MaxReply: createRes},
	ProcRemove:      {Name: "REMOVE", MaxReply: statusSize + wccData},
	ProcRmdir:       {Name: "RMDIR", MaxReply: statusSize + wccData},
	ProcRename:      {Name: "RENAME", MaxReply: statusSize + 2*wccData},
	ProcLink:        {Name: "LINK", MaxReply: statusSize + postOpAttr + wccData},
	ProcReaddir:     {Name: "READDIR", MaxReply: statusSize + dirSlack, Grows: GrowsCount},
	ProcReaddirplus: {Name: "READDIRPLUS", MaxReply: statusSize + dirSlack, Grows: GrowsMaxcount},
	ProcFsstat:      {Name: "FSSTAT", MaxReply: statusSize + postOpAttr + 6*8 + 4},
	ProcFsinfo:      {Name: "FSINFO", MaxReply: statusSize + postOpAttr + 7*4 + 8 + 8 + 4},
	ProcPathconf:    {Name: "PATHCONF", MaxReply: statusSize + postOpAttr + 6*4},
	ProcCommit:      {Name: "COMMIT", MaxReply: statusSize + wccData + verfSize},
}

// Extra returns the number of bytes that n, the value named by Grows, adds to MaxReply. For READ
// and READLINK these bytes count only if the item has no sink.
func (b *Binding) Extra(n uint32) int {
	if b.Grows == GrowsNot {
		return 0
	}
	return xdr.RoundUp(int(n))
}
