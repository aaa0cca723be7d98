// What an exports file says: directories, clients, and what each of them may do.

// Package exports reads files in the grammar of exports(5) and finds the rule that a client falls
// under. An Export of a file is the Rules of an nfsserver.Export.
//
//	file, err := exports.Parse("exports", []byte("/srv/data 192.168.1.0/24(rw) *(ro)\n"))
//	if err != nil {
//		log.Fatal(err)
//	}
//	match := file.Exports[0].Match(netip.MustParseAddr(client), nil) // no Resolver: no host is given by name
//	fmt.Println(client, match.Client.Options.String())
//
// Parse is strict: what the server does not have is an error with line and column, since a rule
// that is silently left out gives rights that nobody meant to give. Match chooses among the clients
// of one export. Neither waits for anything: host names are asked of a Resolver, which answers from
// memory (Names).
//
// Until version 1 a release can change these names. CHANGELOG.md lists each change.
package exports

import (
	"fmt"
	"net/netip"
	"slices"
)

// nobody is the user and group of squashed callers where anonuid and anongid do not say.
const nobody = 65534

// A File is an exports file, with the exports in the order of their first lines.
type File struct {
	Exports []*Export
}

// An Export is a directory with the clients that may use it, from one line or several. It does not
// change.
type Export struct {
	Path    string // absolute and clean
	Line    int    // of the file, the first that has it
	Clients []Client
	Whole   Whole

	ranked []*Client // by rank, then in the order of the file: Match takes the first that matches
}

// Whole is the options that hold for an export and not for one client: all its clients have the
// same.
type Whole struct {
	CrossMounts  bool   // crossmnt: what is mounted below is served, too
	NoHide       bool   // nohide: clients of an export above enter this one
	SubtreeCheck bool   // handles of what was moved out of the directory are stale
	HasFSID      bool   // fsid= is given
	FSID         uint64 // its number; 0 for "root"; of a UUID its two halves, xored
}

// A Client is one client specification of an export, with the options that hold for it.
type Client struct {
	Spec    string // as in the file
	Options Options

	line, column int
	kind         kind
	name         string       // of a host, or the pattern of a wildcard, in lower case
	net          netip.Prefix // of an address, all bits of it, or of a network
}

// Options is what a client may do. The zero value is not the default: that is ReadOnly, Secure, and
// user and group 65534.
type Options struct {
	ReadOnly         bool
	Async            bool // changes are answered before they are on stable storage
	Secure           bool // over TCP only from ports below 1024
	NoRootSquash     bool
	AllSquash        bool
	NoACL            bool   // clients neither see nor set ACLs, which hold all the same
	AnonUID, AnonGID uint32 // as whom squashed callers act

	whole Whole
}

// defaults are those of exports(5).
func defaults() Options {
	return Options{ReadOnly: true, Secure: true, AnonUID: nobody, AnonGID: nobody}
}

// String is the options in the words of the file, defaults included, those of the whole export
// apart.
func (o *Options) String() string {
	word := func(on bool, yes, no string) string {
		if on {
			return yes
		}
		return no
	}
	s := word(o.ReadOnly, "ro", "rw") + word(o.Async, ",async", ",sync") + word(o.Secure, ",secure", ",insecure") +
		word(o.NoRootSquash, ",no_root_squash", ",root_squash") + word(o.AllSquash, ",all_squash", "") + word(o.NoACL, ",no_acl", "")
	if o.AnonUID != nobody || o.AnonGID != nobody {
		s += fmt.Sprintf(",anonuid=%d,anongid=%d", o.AnonUID, o.AnonGID)
	}
	return s
}

// Specs are the clients in the order of the file, as showmount(8) lists them.
func (x *Export) Specs() (specs []string) {
	for i := range x.Clients {
		specs = append(specs, x.Clients[i].Spec)
	}
	return specs
}

// Mistake is an Error at the place of the client. Options of the whole export stand at its first.
func (c *Client) Mistake(file, problem string) *Error {
	return &Error{file, c.line, c.column, problem}
}

// rank puts the clients in the order in which they are tried.
func (x *Export) rank() {
	x.ranked = nil
	for i := range x.Clients {
		x.ranked = append(x.ranked, &x.Clients[i])
	}
	slices.SortStableFunc(x.ranked, func(a, b *Client) int { return a.kind.rank() - b.kind.rank() })
}

// An Error is a mistake in a file.
type Error struct {
	File         string
	Line, Column int // from 1; columns in bytes
	Problem      string
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Problem)
}
