// Package hostile holds the tests of what a hostile peer can do: one named test for
// each way in which a stack for NFS over RDMA has been seen to fail, then floods.
// Each wants the answer that the RFCs give, and clients beside that work on.
package hostile
