// Hard links in sources on several servers.

package treecopy

import "testing"

// TestLinksOfTwoServers: files with equal numbers on two servers, for example cloned machines, are
// two files.
func TestLinksOfTwoServers(t *testing.T) {
	one := Meta{Fsid: 1, Fileid: 2, Nlink: 2, domain: new(int)}
	two := one
	two.domain = new(int)
	var table linkTable
	first, isFirst := table.claim(&one)
	if other, isNew := table.claim(&two); !isFirst || !isNew || first == other {
		t.Error("the second server's file would become a link to the first one's content")
	}
	if again, isNew := table.claim(&one); isNew || again != first {
		t.Error("the second name of a file is taken for another file")
	}
}
