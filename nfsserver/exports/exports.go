// The content of an exports file: directories, clients, and their options.

// Package exports reads files in the grammar of exports(5) and finds the rule that a client falls
// under. An Export of a file is the Rules of an nfsserver.Export.
//
//	file, err := exports.Parse("exports", []byte("/srv/data 192.168.1.0/24(rw) *(ro)\n"))
//	if err != nil {
//		log.Fatal(err)
//	}
//	// No Resolver: no client is given by host name.
//	match := file.Exports[0].Match(netip.MustParseAddr(client), nil)
//	fmt.Println(client, match.Client.Options.String())
//
// Parse is strict. Anything unsupported, such as an option or a netgroup, is an error with line and
// column, because a silently ignored rule would give unintended rights. Match chooses among the
// clients of one export. Neither blocks: host names come from a Resolver, which answers from memory
// (Names).
//
// Until version 1 a release can change these names. CHANGELOG.md lists each change.
package exports

import (
	"fmt"
	"net/netip"
	"slices"
)

// nobody is the user and group of squashed callers without anonuid and anongid.
const nobody = 65534

// A File is a parsed exports file, with the exports ordered by their first lines.
type File struct {
	Exports []*Export
}

// An Export is a directory with its clients, from one line or several. It does not change.
type Export struct {
	Path    string // absolute and clean
	Line    int    // first line in the file with this path
	Clients []Client
	Whole   Whole

	ranked []*Client // by rank, then in file order: Match takes the first that matches
}

// Whole holds the options of an export as a whole: all its clients have the same.
type Whole struct {
	CrossMounts  bool   // crossmnt: file systems mounted below are served, too
	NoHide       bool   // nohide: an outer export's clients enter this one
	SubtreeCheck bool   // a handle is stale once its file has left the directory
	HasFSID      bool   // fsid= is given
	FSID         uint64 // its number; 0 for "root"; for a UUID its two halves, xored
}

// A Client is one client specification in an export, with its options.
type Client struct {
	Spec    string // as in the file
	Options Options

	line, column int
	kind         kind
	name         string       // host name, or wildcard pattern, in lower case
	net          netip.Prefix // an address with all its bits, or a network
}

// Options are a client's options. The zero value is not the default: that is ReadOnly, Secure, and
// user and group 65534.
type Options struct {
	Access                  // without sec=, or for the first flavor in sec=
	Async            bool   // changes are answered before they are stable
	NoACL            bool   // clients neither see nor set ACLs, which stay in force
	AnonUID, AnonGID uint32 // for squashed callers
	Security

	whole Whole
}

// defaults returns exports(5)'s defaults.
func defaults() Options {
	return Options{Access: Access{ReadOnly: true, Secure: true}, AnonUID: nobody, AnonGID: nobody}
}

// String returns the options in the file's words, including defaults but without those of the whole
// export.
func (o *Options) String() string {
	s := word(o.ReadOnly, "ro", "rw") + word(o.Async, ",async", ",sync") + word(o.Secure, ",secure", ",insecure") +
		word(o.NoRootSquash, ",no_root_squash", ",root_squash") + word(o.AllSquash, ",all_squash", "") + word(o.NoACL, ",no_acl", "")
	if o.AnonUID != nobody || o.AnonGID != nobody {
		s += fmt.Sprintf(",anonuid=%d,anongid=%d", o.AnonUID, o.AnonGID)
	}
	return s + o.Security.Words()
}

// word returns one of an option's two words.
func word(on bool, yes, no string) string {
	if on {
		return yes
	}
	return no
}

// Specs returns the clients in file order, as showmount(8) lists them.
func (x *Export) Specs() (specs []string) {
	for i := range x.Clients {
		specs = append(specs, x.Clients[i].Spec)
	}
	return specs
}

// Mistake returns an Error at the client's position. A mistake in the whole export's options is
// reported at its first client.
func (c *Client) Mistake(file, problem string) *Error {
	return &Error{file, c.line, c.column, problem}
}

// rank sorts the clients in matching order.
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
