// Package hostile tests attacks by a hostile peer: one named test for each known failure of an
// NFS-over-RDMA stack, then floods. Each expects the response required by the RFCs, and undisturbed
// other clients.
package hostile
