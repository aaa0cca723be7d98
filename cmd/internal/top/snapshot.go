// A server's metrics at one moment.

// Package top is a live view of a server: snapshots of its metrics, the rates between two of them,
// and their display on a terminal or as lines.
package top

import (
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/figures"
)

// A Snapshot has the metrics of a server at one moment.
type Snapshot struct {
	At      time.Time // time of reading, by this machine's clock
	Figures figures.Set
	Clients []Client // from the control socket; nil without a control socket
}

// A Client is one client connection, with the keys of nfsrdmad clients --json.
type Client struct {
	Address   string   `json:"address"`
	Transport string   `json:"transport"`
	Exports   []string `json:"exports"`
	Users     []User   `json:"users"`
	Calls     float64  `json:"calls"`
	In        float64  `json:"bytes_in"`
	Out       float64  `json:"bytes_out"`
	Age       float64  `json:"age_seconds"`
	Idle      float64  `json:"idle_seconds"`
	XprtSec   string   `json:"xprtsec"`
	TLS       *struct {
		Cipher string `json:"cipher"`
	} `json:"tls"`
	RDMA *struct {
		Granted float64 `json:"credits_granted"`
		Used    float64 `json:"credits_used"`
	} `json:"rdma"`
}

// A User is claimed by a client's recent calls, or proven with Kerberos.
type User struct {
	Sec       string  `json:"sec"` // flavor
	UID       *uint32 `json:"uid"` // nil for AUTH_NONE, and for a principal without a user
	Principal string  `json:"principal"`
	Calls     float64 `json:"calls"`
}

// Names of the metrics in use, as documented in docs/monitor.md.
const (
	prefix = "nfsrdma_"

	nameCalls    = prefix + "calls_total"
	nameErrors   = prefix + "call_errors_total"
	nameIn       = prefix + "argument_bytes_total"
	nameOut      = prefix + "result_bytes_total"
	nameTook     = prefix + "call_duration_seconds"
	nameRepeated = prefix + "duplicate_calls_total"
	nameRefused  = prefix + "refusals_total"
	nameLost     = prefix + "locks_lost_total"
	nameAgain    = prefix + "roce_retransmissions_total"
	nameConns    = prefix + "connections"
	nameGranted  = prefix + "credits_granted"
	nameUsed     = prefix + "credits_used"
	nameBudget   = prefix + "budget_bytes"
	nameHeld     = prefix + "budget_used_bytes"
	nameWaiting  = prefix + "budget_waiting_connections"
	nameLocks    = prefix + "locks_held"
	nameBlocked  = prefix + "locks_waiting"
	nameBuild    = prefix + "build_info"

	nameCPU    = "process_cpu_seconds_total"
	nameMemory = "process_resident_memory_bytes"
	nameStart  = "process_start_time_seconds"
)
