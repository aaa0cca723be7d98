// The grammar of the exports file, as a help topic and as a manual page.

package program

import (
	"github.com/nfsrdma/nfsrdma/cmd/internal/cli"
	"github.com/spf13/cobra"
)

const grammarText = `An exports file says which clients may use which directories, and how. Its grammar is that of
exports(5). What the server does not have is refused, with line and column: no rule is left out silently.

A line has a directory and its clients, separated by blanks. A client can be followed, without a blank, by
options in parentheses, separated by commas without blanks. A dash with options, between the directory and
a client, sets the defaults of the clients that follow on the line. A directory can be on several lines. A line
that ends with a backslash goes on in the next one; a # where a word could begin begins a comment, which ends
with the line. Paths with blanks have double quotes, or a backslash and three octal digits for a byte, such
as \040.

Clients are host names; names with the wildcards * and ? or with lists such as [0-9], where * stands for
dots too; IPv4 and IPv6 addresses; networks as ADDRESS/LENGTH or, of IPv4, ADDRESS/NETMASK; and * alone for
everybody. Of those that a client falls under the most specific decides, alone: hosts and addresses before
networks before names with wildcards before *, and of several of one sort the first in the file. A name
with wildcards is that of a client if the name of its address leads back to that address. Names are looked
up beside the calls and kept for a minute: a new client may be told to come again for a moment.

Options of a client, with what holds if neither is given first:
  ro, rw                       changes are refused, or not
  sync, async                  changes of names and attributes are answered when they are on stable storage, or
                               before, so that a crash may take them back; data written is stable when the
                               client was told so, with both
  secure, insecure             over TCP only from ports below 1024; over RDMA there is none to ask for, and
                               users of the server's own machine are known by their socket
  root_squash, no_root_squash  root of the client acts as the anonymous user, or as root
  no_all_squash, all_squash    all users of the client act as the anonymous user
  anonuid=UID, anongid=GID     the anonymous user and group: 65534
  acl, no_acl                  clients read and set POSIX ACLs (getfacl, setfacl), or see modes only; the ACLs
                               of the file system hold with both
  sec=sys                      the only flavor that there is

Options of a whole export, the same for all of its clients:
  hide, nohide                 whether clients of the export above enter this one where it is mounted
  nocrossmnt, crossmnt         whether what is mounted below is served, too; an export of its own there is
                               entered with its own rules
  no_subtree_check, subtree_check  whether handles of what was moved out of the directory are stale
  fsid=NUMBER|root|UUID        the number of the directory's file system in attributes and handles
  no_wdelay                    is what holds anyway

With serve --memory a line with the name of the file tree in memory, /memory or as given, says who may use
it: all of a client's options are for it, those of a whole export not. Without such a line it is everybody's.

There are no netgroups, and none of the options of NFS version 4 and of mountd(8) itself. A directory without
clients is a mistake, and so is a blank between a client and its options.

A client with no rule is refused: mount says "access denied", and a call with a handle that it
has from elsewhere gets "permission denied". Rights are checked in every call, so a changed file
holds for clients that are connected. A subdirectory of an export can be mounted; that does not
keep a client from the rest of the export.`

const grammarExample = `  # comments are ignored
  /srv/data      10.0.0.0/24(rw) admin.example.org(rw,no_root_squash)
  /srv/pub       *(ro,all_squash)
  "/srv/my data" -rw,insecure 2001:db8::/64 pc[0-9].example.org(anonuid=150,anongid=100)
  /srv/build     192.0.2.0/255.255.255.0(rw,async) \
                 *.example.org`

// newGrammar is the help topic; it does nothing.
func newGrammar() *cobra.Command {
	return &cobra.Command{Use: "exports-file", Short: "The grammar of the exports file", Long: grammarText, Example: grammarExample}
}

// grammarPage is the manual page, in section 5 and under a name that nothing else has.
func grammarPage() *cobra.Command {
	page := newGrammar()
	page.Use, page.DisableFlagsInUseLine = "nfsrdma-exports", true
	page.Annotations = map[string]string{cli.Section: "5"}
	return page
}
