// The grammar of the exports file, as a help topic and as a manual page.

package program

import (
	"github.com/nfsrdma/nfsrdma/cmd/internal/cli"
	"github.com/spf13/cobra"
)

const grammarText = `An exports file says which clients can use which directories, and how. Its grammar
is that of exports(5). An option that the server does not have is an error with line
and column. No rule is ignored silently.

A line has a directory and its clients, separated by blanks. Options of a client
follow it in parentheses, without a blank. They are separated by commas, also without
blanks. A dash with options, before a client, sets the defaults of the clients that
follow on the line. A directory can be on several lines. A backslash at the end of a
line continues it on the next line. A # at the start of a word begins a comment. Put
a path with blanks in double quotes, or write a backslash and three octal digits for
a byte, such as \040. The output of exportfs -v is accepted too.

A client has one of these forms:

  HOST               a host name
  NAME               a name with the wildcards * and ?, or with a list such as [0-9]; * matches dots too
  ADDRESS            an address of IPv4 or IPv6
  ADDRESS/LENGTH     a network
  ADDRESS/NETMASK    a network of IPv4
  *                  all hosts

If a client matches several of them, only the most specific one counts. Hosts and
addresses come first, then networks, then names with wildcards, then *. Of several of
one kind, the first in the file counts. A name with wildcards matches a client if the
name of its address leads back to that address. Names are looked up in the
background, and kept for a minute. So a new client can get "try again" for a moment.

Options of a client, with the default first:

  ro, rw                       refuse changes, or allow them
  sync, async                  answer a change of names or attributes when it is on stable storage, or before. With async a crash can undo it. Data is as stable as the reply says with both.
  secure, insecure             over TCP, refuse source ports from 1024 on, or allow them. Clients over RDMA have no such port, and need none. Users of the server's own machine are known by their socket.
  root_squash, no_root_squash  root of the client acts as the anonymous user, or as root
  no_all_squash, all_squash    all users of the client act as themselves, or as the anonymous user
  anonuid=UID, anongid=GID     the anonymous user and group (default 65534)
  acl, no_acl                  clients read and set POSIX ACLs (getfacl, setfacl), or see modes only. The ACLs apply with both.
  sec=FLAVORS                  the accepted security flavors, in order of preference and with colons between them: krb5, krb5i, krb5p, sys (user numbers that the client claims), none. Without it sys and none are accepted.
  xprtsec=LEVELS               the accepted protection of the connection by TLS (over TCP, or below iWARP), with colons between them: none, tls, mtls (both ends have certificates). A stronger one than those named is accepted too. Without it all are.
  cert=NAME, ca=SHA256         with xprtsec=mtls: a name in the client's certificate (* and ? are wildcards), and the digest of the authority above it (openssl x509 -in ca.pem -noout -fingerprint -sha256)
  certid=UID:GID               with xprtsec=mtls: all users of the client act as this user and group, root too

Options of a whole export, which all of its clients must share:

  hide, nohide                 clients of the export above stay outside this one, or enter it where it is mounted
  nocrossmnt, crossmnt         hide file systems that are mounted below, or serve them too. An export of its own there has its own rules.
  no_subtree_check, subtree_check  handles of files that moved out of the directory stay valid, or become stale
  fsid=NUMBER|root|UUID        the number of the file system in attributes and handles

Options of exports(5) that are accepted without effect:

  wdelay, no_wdelay            no write is delayed here
  auth_nlm, no_auth_nlm        locks are taken with AUTH_SYS
  secure_locks, insecure_locks  the same as auth_nlm and no_auth_nlm
  no_pnfs                      pNFS is of NFS version 4

Options ro, rw, secure, insecure, root_squash, no_root_squash, all_squash and
no_all_squash after a sec= are of its flavors alone if another sec= follows, as in
sec=krb5,rw,sec=sys,ro. Before the first sec= they are of all.

A call that is too weak for sec=, xprtsec=, cert= or ca= gets AUTH_TOOWEAK, and the log
says what would do. These options are for files and ACLs. MOUNT, the port mapper and
locks are served to all clients of an export, because Linux's clients use them with
AUTH_SYS and in clear whatever the mount says. So are the attributes of the root, if
sec= names a krb5 flavor: a client reads them before it has chosen its flavor.

With serve --memory, a line with the name of the memory tree says which clients can
use it. The name is /memory, or the value of the flag. All options of a client apply
to it, and those of a whole export do not. Without such a line, all clients can use
it.

Netgroups are not supported, and neither are other options of NFS version 4 and
mountd(8). A directory without clients is an error. So is a blank between a client and
its options.

A client that matches no rule is refused. Its mount reports "access denied". Its calls
with a handle from elsewhere get "permission denied". Rights are checked in each call.
So a changed file applies to connected clients after a reload. Clients can mount a
subdirectory of an export. That does not keep them from the rest of the export.`

const grammarExample = `  # comments are ignored
  /srv/data      10.0.0.0/24(rw) admin.example.org(rw,no_root_squash)
  /srv/pub       *(ro,all_squash)
  "/srv/my data" -rw,insecure 2001:db8::/64 pc[0-9].example.org(anonuid=150,anongid=100)
  /srv/build     192.0.2.0/255.255.255.0(rw,async) \
                 *.example.org
  /srv/home      *.example.org(rw,sec=krb5p:krb5i)
  /srv/backup    *(rw,xprtsec=mtls,cert=*.backup.example.org,certid=990:990)`

// newGrammar returns the help topic, a command without an action.
func newGrammar() *cobra.Command {
	return &cobra.Command{Use: "exports-file", Short: "The grammar of the exports file", Long: grammarText, Example: grammarExample}
}

// grammarPage returns the manual page, in section 5 under a unique name.
func grammarPage() *cobra.Command {
	page := newGrammar()
	page.Use, page.DisableFlagsInUseLine = "nfsrdma-exports", true
	page.Annotations = map[string]string{cli.Section: "5"}
	return page
}
