// The binding of NFSv3 to RPC-over-RDMA: what may ride in a chunk, and how large a reply can be
// (RFC 8267).

package nfs3

import "github.com/nfsrdma/nfsrdma/xdr"

// Grows says which value of the call adds to the size of its reply.
type Grows uint8

// What adds to the size of a reply.
const (
	GrowsNot      Grows = iota
	GrowsPath           // READLINK: the longest path that the client takes (its own limit)
	GrowsCount          // READ, READDIR: the count argument
	GrowsMaxcount       // READDIRPLUS: the maxcount argument
)

// A Binding is what RPC-over-RDMA must know of one procedure. The items are those that the
// protocol's binding names, and no others (RFC 8166 §3.4.2 [R8166-043]): WRITE data, SYMLINK path,
// READ data, READLINK path.
type Binding struct {
	Name    string
	ArgItem bool // one argument may travel as a Read chunk
	ResItem bool // one result may travel as a Write chunk
	// MaxReply is the most bytes of the results in any arm, status included,
	// RPC header not; content and pad of the result item, or of what Grows
	// names, come on top (see Extra).
	MaxReply int
	Grows    Grows
}

// Sizes in bytes of parts of results, all optional parts present.
const (
	statusSize = 4
	postOpAttr = 4 + fattrSize
	wccData    = 4 + 24 + postOpAttr
	postOpFH   = 4 + 4 + FHSize
	createRes  = statusSize + postOpFH + postOpAttr + wccData
	// dirSlack covers servers whose READDIR counts the entries only, although
	// the count stands for the whole of the result.
	dirSlack = 128
)

// Bindings has one row for each procedure, by its number.
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

// Extra is the bytes that a value n of what Grows names adds to MaxReply; for
// READ and READLINK only when the item has no sink of its own.
func (b *Binding) Extra(n uint32) int {
	if b.Grows == GrowsNot {
		return 0
	}
	return xdr.RoundUp(int(n))
}
