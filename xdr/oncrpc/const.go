// Enumerations of ONC RPC version 2 (RFC 5531 §8.2, §9).

// Package oncrpc has the headers of ONC RPC version 2 calls and replies (RFC 5531) and their XDR
// codec. Nothing here allocates: decoded opaque bodies alias the message.
package oncrpc

import "strconv"

// RPCVersion is the RPC protocol's own version.
const RPCVersion = 2

// maxAuth is the longest opaque_auth body, in bytes (RFC 5531 §8.2).
const maxAuth = 400

// MsgType distinguishes calls and replies.
type MsgType uint32

// The message types.
const (
	Call  MsgType = 0
	Reply MsgType = 1
)

func (t MsgType) String() string { return nameOf([]string{"CALL", "REPLY"}, uint32(t), "msg_type") }

// AcceptStat is an accepted call's outcome.
type AcceptStat uint32

// The outcomes of accepted calls.
const (
	Success AcceptStat = iota
	ProgUnavail
	ProgMismatch
	ProcUnavail
	GarbageArgs
	SystemErr
)

func (s AcceptStat) String() string { return nameOf(acceptNames[:], uint32(s), "accept_stat") }

var acceptNames = [...]string{"SUCCESS", "PROG_UNAVAIL", "PROG_MISMATCH", "PROC_UNAVAIL", "GARBAGE_ARGS", "SYSTEM_ERR"}

// RejectStat is the reason for a denied call.
type RejectStat uint32

// The reasons for denied calls.
const (
	RPCMismatch RejectStat = iota
	AuthError
)

func (s RejectStat) String() string {
	return nameOf([]string{"RPC_MISMATCH", "AUTH_ERROR"}, uint32(s), "reject_stat")
}

// AuthStat is the reason for failed authentication.
type AuthStat uint32

// The reasons for failed authentication.
const (
	AuthOK AuthStat = iota
	AuthBadCred
	AuthRejectedCred
	AuthBadVerf
	AuthRejectedVerf
	AuthTooWeak
	AuthInvalidResp
	AuthFailed
)

// RPCSEC_GSS's reasons to renew credentials (RFC 2203 §5.3.3.3).
const (
	GSSCredProblem AuthStat = 13
	GSSCtxProblem  AuthStat = 14
)

func (s AuthStat) String() string { return nameOf(authNames[:], uint32(s), "auth_stat") }

var authNames = [...]string{0: "AUTH_OK", 1: "AUTH_BADCRED", 2: "AUTH_REJECTEDCRED", 3: "AUTH_BADVERF",
	4: "AUTH_REJECTEDVERF", 5: "AUTH_TOOWEAK", 6: "AUTH_INVALIDRESP", 7: "AUTH_FAILED",
	13: "RPCSEC_GSS_CREDPROBLEM", 14: "RPCSEC_GSS_CTXPROBLEM"}

// Flavor is an authentication flavor.
type Flavor uint32

// The named flavors. A message has FlavorGSS where a configuration or an NFS flavor list has one of
// the pseudo-flavors, which also name mechanism and service (RFC 2623 §2.3.1).
const (
	FlavorNone  Flavor = 0
	FlavorSys   Flavor = 1
	FlavorShort Flavor = 2
	FlavorDH    Flavor = 3
	FlavorGSS   Flavor = 6
	FlavorTLS   Flavor = 7 // RFC 9289

	FlavorKrb5  Flavor = 390003 // Kerberos 5, header only
	FlavorKrb5i Flavor = 390004 // with integrity
	FlavorKrb5p Flavor = 390005 // with privacy
)

func (f Flavor) String() string {
	if f >= FlavorKrb5 && f <= FlavorKrb5p {
		return krb5Names[f-FlavorKrb5]
	}
	return nameOf(flavorNames[:], uint32(f), "auth_flavor")
}

var krb5Names = [...]string{"krb5", "krb5i", "krb5p"}

var flavorNames = [...]string{0: "AUTH_NONE", 1: "AUTH_SYS", 2: "AUTH_SHORT", 3: "AUTH_DH", 6: "RPCSEC_GSS", 7: "AUTH_TLS"}

// nameOf returns names[v], or kind(v) for a value without a name.
func nameOf(names []string, v uint32, kind string) string {
	if uint64(v) < uint64(len(names)) && names[v] != "" {
		return names[v]
	}
	return kind + "(" + strconv.FormatUint(uint64(v), 10) + ")"
}
