// The table of all checks, in display order.

package doctor

// The names of the checks.
const (
	nameCheck    = "name"
	routeCheck   = "route"
	portRDMA     = "RDMA port"
	portTCP      = "TCP port"
	portBind     = "rpcbind port"
	tlsCheck     = "TLS"
	startUp      = "MPA start-up"
	rpcRDMA      = "RPC-over-RDMA"
	programsRDMA = "programs/RDMA"
	programsTCP  = "programs/TCP"
	bindCheck    = "rpcbind"
	mountCheck   = "MOUNT"
	exportsCheck = "exports"
	mntCheck     = "MNT"
	realmCheck   = "Kerberos realm"
	keytabCheck  = "keytab"
	ticketCheck  = "ticket"
	contextCheck = "Kerberos"
	fsinfoCheck  = "FSINFO"
	spaceCheck   = "space"
	whoCheck     = "who am I there"
	writeCheck   = "write and read"
	latencyCheck = "latency"
	pathCheck    = "large packets"
	deviceCheck  = "RDMA device"
	moduleCheck  = "modules"
	kernelCheck  = "kernel client"
	lockCheck    = "locking"
	fuseCheck    = "FUSE"
	limitsCheck  = "limits"
	adviceCheck  = "mount command"
)

func table() []check {
	return []check{
		{nameCheck, nil, nil, checkName},
		{routeCheck, []string{nameCheck}, nil, checkRoute},
		{portRDMA, []string{nameCheck, routeCheck}, nil, checkRDMAPort},
		{portTCP, []string{nameCheck, routeCheck}, nil, checkTCPPort},
		{portBind, []string{nameCheck, routeCheck}, nil, checkBindPort},
		{tlsCheck, []string{portTCP}, nil, checkTLS},
		{startUp, []string{portRDMA}, nil, checkStartUp},
		{rpcRDMA, []string{startUp}, []string{tlsCheck}, checkRPCOverRDMA},
		{programsRDMA, []string{rpcRDMA}, nil, checkProgramsRDMA},
		{programsTCP, []string{portTCP, tlsCheck}, nil, checkProgramsTCP},
		{bindCheck, []string{portBind}, nil, checkBind},
		{mountCheck, []string{nameCheck, routeCheck}, []string{programsRDMA, programsTCP, bindCheck}, checkMount},
		{exportsCheck, []string{mountCheck}, nil, checkExports},
		{mntCheck, []string{mountCheck}, []string{exportsCheck}, checkMNT},
		{realmCheck, nil, []string{mntCheck}, checkRealm},
		{keytabCheck, nil, []string{mntCheck}, checkKeytab},
		{ticketCheck, nil, []string{mntCheck, realmCheck}, checkTicket},
		{contextCheck, []string{ticketCheck}, nil, checkContext},
		{fsinfoCheck, []string{mntCheck}, []string{contextCheck}, checkFSINFO},
		{whoCheck, []string{fsinfoCheck}, nil, checkWho},
		{spaceCheck, []string{fsinfoCheck}, []string{whoCheck}, checkSpace},
		{writeCheck, []string{fsinfoCheck}, []string{whoCheck}, checkWrite},
		{latencyCheck, []string{nameCheck, routeCheck}, []string{programsRDMA, programsTCP, writeCheck}, checkLatency},
		{pathCheck, []string{nameCheck, routeCheck}, []string{latencyCheck}, checkPath},
		{deviceCheck, nil, []string{routeCheck, portRDMA}, checkDevice},
		{moduleCheck, nil, []string{portRDMA}, checkModules},
		{kernelCheck, nil, nil, checkKernelClient},
		{lockCheck, nil, []string{programsRDMA, programsTCP, bindCheck}, checkLocking},
		{fuseCheck, nil, nil, checkFUSE},
		{limitsCheck, nil, nil, checkLimits},
		{adviceCheck, []string{nameCheck}, []string{mntCheck, routeCheck, lockCheck, writeCheck, pathCheck}, checkAdvice},
	}
}
