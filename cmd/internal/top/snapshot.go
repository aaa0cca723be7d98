// What a server has done so far, at one moment.

// Package top is a live view of a server: snapshots of its figures, the rates between two of them, and how those are
// shown, on a terminal and as lines.
package top

import (
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/figures"
)

// A Snapshot is the figures of a server at one moment.
type Snapshot struct {
	At      time.Time // when they were read, by the clock of this machine
	Figures figures.Set
	Clients []Client // only where the server's control socket was asked; else nil
}

// A Client is one connection of a client, in the words of nfsrdmad clients --json.
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
	RDMA      *struct {
		Granted float64 `json:"credits_granted"`
		Used    float64 `json:"credits_used"`
	} `json:"rdma"`
}

// A User is one that a client has called as lately, by its word.
type User struct {
	UID   *uint32 `json:"uid"` // nil: of AUTH_NONE, which has none
	Calls float64 `json:"calls"`
}

// The names of the figures that are used, which docs/monitor.md promises.
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
