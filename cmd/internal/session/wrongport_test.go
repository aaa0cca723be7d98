// A port that is another protocol's.

package session

import (
	"context"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsclient"
)

// Connecting ends as soon as the port is known to be another's, not when its time is over.
func TestConnectingToAWrongPortEnds(t *testing.T) {
	_, tcp := serve(t)
	target, err := nfsclient.ParseTarget("nfsrdma://" + strings.TrimPrefix(tcp, "nfs://") + "/x")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	found := probeLate(ctx, cancel, target)
	<-ctx.Done()
	if hint := found(); !strings.Contains(hint, "ONC RPC over TCP") {
		t.Errorf("%q", hint)
	}
}
