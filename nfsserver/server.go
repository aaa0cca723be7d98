// The server: its exports, and state common to all procedures.

// Package nfsserver serves file trees by NFS version 3 and MOUNT version 3 (RFC 1813),
// over RDMA and TCP. Use it to export a directory (package osfs), memory (memfs) or a
// file tree of your own, an FS, from a program.
//
//	tree, err := osfs.New(dir, osfs.Options{})
//	if err != nil {
//		log.Fatal(err)
//	}
//	uid, gid := uint32(os.Geteuid()), uint32(os.Getegid()) // of this process
//	server, err := nfsserver.New(nfsserver.Options{
//		Squash:  nfsserver.Squash{All: true, UID: uid, GID: gid},
//		Exports: []nfsserver.Export{{Name: "/share", FS: tree, ReadOnly: true}},
//	})
//	if err != nil {
//		log.Fatal(err)
//	}
//	defer server.Close() // and the tree
//	service, err := server.Start(nfsserver.Listen{TCP: "127.0.0.1:0", RDMA: "127.0.0.1:0"})
//
// test/examples/readonly in this module is a complete program that serves a tree of its own, an
// archive. An FS needs only the methods of the interface FS. ACLer, Locker, LaterReader and
// NonBlocker are for an FS with more features.
//
// A Server holds exports, each a name and an FS, and has the programs to serve: the same tables
// over RDMA and over TCP. Options.Squash and the export's rules determine a call's effective user.
// The FS, or the kernel below it, checks that user's permissions.
//
// Durability: UNSTABLE data is on stable storage after COMMIT. DATA_SYNC and FILE_SYNC data is
// stable before the reply. So is every change of names and attributes unless Options.AsyncNames is
// set.
//
// Until version 1 a release can change these names. CHANGELOG.md lists each change.
package nfsserver

// Internals: identity.go finds a call's user. Attributes before and after a change are read under
// the object's lock (objectlocks.go), so no other change through this server comes between them.

import (
	"crypto/rand"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/internal/tally"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/transport"
)

// MaxIO is the largest READ or WRITE in bytes (rtmax and wtmax of FSINFO).
const MaxIO = 1 << 20

// An Export is a file tree with a name for clients to mount.
type Export struct {
	Name string // a clean absolute path
	// ByPath: Name is the path of FS on this machine. If the path is a symbolic link, MNT also
	// accepts the link's target (Info.Path), as mountd does.
	ByPath bool
	FS     FS // closed with the Server
	// Open opens FS, which is nil, while the Server is running. Open can take any time, for
	// instance if a file system does not answer. Until it returns, calls get NFS3ERR_JUKEBOX. If it
	// fails, MNT gets MNT3ERR_IO, and the Server calls Open again.
	Open func() (FS, error)
	// Trees chooses a file tree for each caller. FS and Open are nil.
	Trees Trees
	// MaxTrees is the most trees of Trees open at once; 0: 256. One more closes the tree unused for
	// the longest time, and its next call opens it again. While calls or locks use all trees,
	// callers for another get NFS3ERR_JUKEBOX.
	MaxTrees int
	ReadOnly bool // regardless of Rules
	// Rules list the clients that may use the export, and the clients' options (exports(5)). nil:
	// all clients may use the export, subject to Squash.
	Rules *exports.Export
}

// Options configures a Server.
type Options struct {
	Exports []Export
	// Key authenticates file handles. A new Key invalidates all handles. Zero: a random key.
	Key [KeySize]byte
	// Squash decides which callers are trusted, and their effective users.
	Squash Squash
	// Security has the demands of exports without Rules on their clients' calls (sec= and xprtsec=
	// of an exports file). The zero value accepts AUTH_SYS and AUTH_NONE, with and without TLS.
	Security exports.Security
	// Groups looks up the primary and all groups of a local user; an error means an unknown user.
	// The Server calls Groups at most once a minute for each user. nil: FileGroups.
	Groups func(uid uint32) (gid uint32, gids []uint32, err error)
	// AsyncNames answers changes of names and attributes before they are on stable storage. RFC
	// 1813 §4.8 does not allow this, because a machine crash can undo a change already confirmed to
	// a client. Written data is not affected.
	AsyncNames bool
	// NoACL omits the NFSACL program: clients see modes only, and set no ACLs.
	NoACL bool
	// Names resolves clients' names for Rules. nil: an exports.Names with this machine's resolver.
	Names exports.Resolver
	// Auditor receives changes of names and attributes. nil: none.
	Auditor Auditor
	// Logger receives lines for an operator: mounts, refused clients, exports that cannot be
	// opened. It also receives the transport's lines if Listen.RPC has no Logger. In the long run
	// clients cause at most one line a second of each text. nil: slog.Default();
	// slog.DiscardHandler discards the lines.
	Logger *slog.Logger
}

// A Server is a set of exports. Its methods may be called concurrently.
type Server struct {
	// Set once.
	key    sipKey
	squash Squash
	// Options.Security
	security exports.Security
	async    bool // Options.AsyncNames
	noACL    bool
	names    exports.Resolver
	audit    Auditor // nil: no audit

	table atomic.Pointer[table] // the served exports

	mu      sync.Mutex  // guards all below; Replace holds it throughout
	retired []*export   // from earlier tables, not closed yet
	lanes   int         // number of transport lanes in use or free
	free    []int       // unused lanes
	decided tally.Table // decisions by the FSs of closed exports

	refused refusedClients

	mounts   mountTable
	squashed seenTable     // client-export pairs with a logged squashed root
	waits    chan struct{} // semaphore for MNTs waiting for names
	groups   groupTable
	log      transport.RateLog
}

// New returns a Server of the exports. It starts no listener: call Start, or serve the Programs.
func New(o Options) (*Server, error) {
	if o.Key == ([KeySize]byte{}) {
		rand.Read(o.Key[:])
	}
	s := &Server{decided: tally.Table{}, key: newSipKey(&o.Key), squash: o.Squash, security: o.Security, async: o.AsyncNames, noACL: o.NoACL, names: o.Names, audit: o.Auditor, waits: make(chan struct{}, nameWaits)}
	s.groups.lookup, s.log.Logger = o.Groups, o.Logger
	if s.names == nil {
		s.names = exports.NewNames(nil)
	}
	t, opens, err := s.newTable(o.Exports, nil)
	if err != nil {
		return nil, err
	}
	s.table.Store(t)
	for x, open := range opens {
		go x.openLater(open, o.Logger)
	}
	return s, nil
}

// Programs returns the programs to serve: NFS and MOUNT, and NFSACL unless Options.NoACL is set.
func (s *Server) Programs() []*transport.Program {
	programs := []*transport.Program{s.nfsProgram(), s.mountProgram()}
	if !s.noACL {
		programs = append(programs, s.aclProgram())
	}
	return programs
}

// Names returns the names of the exports.
func (s *Server) Names() (names []string) {
	for _, e := range s.table.Load().entries {
		names = append(names, e.x.name)
	}
	return names
}
