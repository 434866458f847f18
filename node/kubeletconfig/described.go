package kubeletconfig

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
)

// description is about a field that changes nothing here: the values, in JSON, that agree with what a node does.
type description struct {
	may   []string
	does  string
	exact bool // zero values mean something
}

func always(does string, may ...string) description { return description{may: may, does: does} }

func exactly(does string, may ...string) description {
	return description{may: may, does: does, exact: true}
}

// described are the fields that may only describe what a node here does.
func described() map[string]description {
	all := describedKubelet()
	maps.Copy(all, describedMachine())
	return all
}

// describedKubelet are those about the kubelet and its server.
func describedKubelet() map[string]description {
	const (
		debugging = "the server has logs, exec, attach, port-forward and metrics, and nothing for debugging the kubelet"
		down      = "the machine's shutdown is not waited for; package kubelet/shutdown does it in programs that connect it"
		health    = "the node's server has /healthz"
		log       = "it writes text to its output"
		nodes     = "the node is registered, and its status and lease are kept as upstream's defaults say"
		pulls     = "pulls of images are neither queued nor limited in rate"
		tls       = "the server takes TLS 1.2 and 1.3 with Go's choice of ciphers"
		watching  = "pods and what they refer to are watched"
	)
	return map[string]description{
		"syncFrequency":                             always(watching, `"1m"`, `"1m0s"`),
		"fileCheckFrequency":                        always("static pods are looked at every 20 s", `"20s"`),
		"httpCheckFrequency":                        always("static pods come from files"),
		"staticPodURL":                              always("static pods come from files"),
		"staticPodURLHeader":                        always("static pods come from files"),
		"configMapAndSecretChangeDetectionStrategy": always(watching, `"Watch"`),
		"readOnlyPort":                              always("there is no server without authentication"),
		"tlsCipherSuites":                           always(tls),
		"tlsCurvePreferences":                       always(tls),
		"tlsMinVersion":                             always(tls, `"VersionTLS12"`),
		"registryPullQPS":                           always(pulls),
		"registryBurst":                             always(pulls),
		"serializeImagePulls":                       always(pulls),
		"maxParallelImagePulls":                     always(pulls),
		"imagePullCredentialsVerificationPolicy":    always("images that are there are used whoever has pulled them", `"NeverVerify"`),
		"preloadedImagesVerificationAllowlist":      always("images that are there are used whoever has pulled them"),
		"imageServiceEndpoint":                      always("images and containers have one socket"),
		"eventRecordQPS":                            always("events are limited as the recorder says"),
		"eventBurst":                                always("events are limited as the recorder says"),
		"enableDebuggingHandlers":                   exactly(debugging, "true"),
		"enableContentionProfiling":                 always(debugging),
		"enableProfilingHandler":                    always(debugging),
		"enableDebugFlagsHandler":                   always(debugging),
		"enableSystemLogHandler":                    always(debugging),
		"enableSystemLogQuery":                      always(debugging),
		"healthzPort":                               always(health),
		"healthzBindAddress":                        always(health, `"127.0.0.1"`),
		"streamingConnectionIdleTimeout":            always("streams have no time limit of the node's"),
		"nodeStatusUpdateFrequency":                 always(nodes, `"10s"`),
		"nodeStatusReportFrequency":                 always(nodes, `"5m"`, `"5m0s"`),
		"nodeLeaseDurationSeconds":                  always(nodes, "40"),
		"nodeStatusMaxImages":                       exactly(nodes, "50"),
		"registerNode":                              exactly(nodes, "true"),
		"providerID":                                always(nodes),
		"enableControllerAttachDetach":              exactly(nodes, "true"),
		"runtimeRequestTimeout":                     always("calls of the runtime end with what they are for", `"2m"`, `"2m0s"`),
		"runOnce":                                   always("it runs until it is ended"),
		"contentType":                               always("it speaks Protobuf", `"application/vnd.kubernetes.protobuf"`),
		"kubeAPIQPS":                                always("requests are limited to 50 a second", "50"),
		"kubeAPIBurst":                              always("requests are limited to 50 a second", "100"),
		"featureGates":                              always("features have no gates"),
		"showHiddenMetricsForVersion":               always("no metrics are hidden"),
		"logging":                                   always(log),
		"tracing":                                   always(log),
		"shutdownGracePeriod":                       always(down),
		"shutdownGracePeriodCriticalPods":           always(down),
		"shutdownGracePeriodByPodPriority":          always(down),
	}
}

// describedMachine are those about the machine and what pods get of it.
func describedMachine() map[string]description {
	const (
		cgroups   = "cgroups are made here, of the driver cgroupfs, and pods are in those of their class"
		quality   = "memory is neither reserved nor throttled by the class of a pod"
		reserving = "what is reserved is not a cgroup with limits of its own"
		rules     = "the kubelet makes no rules of netfilter"
		swap      = "swap is neither looked for nor used"
	)
	return map[string]description{
		"volumeStatsAggPeriod":          always("volumes are measured every minute", `"1m"`, `"1m0s"`),
		"volumePluginDir":               always("drivers of volumes are CSI drivers", `"/usr/libexec/kubernetes/kubelet-plugins/volume/exec/"`),
		"containerLogMaxWorkers":        always("logs are rotated one after the other", "1"),
		"crashLoopBackOff":              always("containers are restarted after 10 s to 5 min"),
		"oomScoreAdj":                   always("the kubelet's own is left alone"),
		"kubeletCgroups":                always(cgroups),
		"systemCgroups":                 always(cgroups),
		"cgroupsPerQOS":                 exactly(cgroups, "true"),
		"cgroupDriver":                  always(cgroups, `"cgroupfs"`),
		"failCgroupV1":                  always("cgroups v1 and v2 are used"),
		"singleProcessOOMKill":          always("the kernel decides which process of a container is killed"),
		"memoryThrottlingFactor":        always(quality),
		"memoryReservationPolicy":       always(quality, `"None"`),
		"qosReserved":                   always(quality),
		"hairpinMode":                   always("the network plugin decides", `"promiscuous-bridge"`),
		"podPidsLimit":                  always("processes of pods are not limited", "-1"),
		"cpuCFSQuota":                   exactly("limits of CPU are enforced, by periods of 100 ms", "true"),
		"cpuCFSQuotaPeriod":             always("limits of CPU are enforced, by periods of 100 ms", `"100ms"`),
		"maxOpenFiles":                  always("the system's limit counts"),
		"podsPerCore":                   always("pods are limited by maxPods"),
		"protectKernelDefaults":         always("settings of the kernel are left alone"),
		"makeIPTablesUtilChains":        always(rules),
		"iptablesMasqueradeBit":         always(rules),
		"iptablesDropBit":               always(rules),
		"failSwapOn":                    always(swap),
		"memorySwap":                    always(swap),
		"systemReservedCgroup":          always(reserving),
		"kubeReservedCgroup":            always(reserving),
		"enforceNodeAllocatable":        always("what pods may use is enforced on the cgroup of all pods", `["pods"]`),
		"allowedUnsafeSysctls":          always("unsafe settings of the kernel are refused"),
		"defaultPodSysctls":             always("pods have the kernel's settings"),
		"kernelMemcgNotification":       always("memory is looked at every 10 s"),
		"seccompDefault":                always("containers that name no seccomp profile have none"),
		"localStorageCapacityIsolation": exactly("local storage is measured and limited", "true"),
		"userNamespaces":                always("pods with user namespaces have 65536 IDs each"),
	}
}

// allows reports whether a value, in JSON, describes what a node does.
func (d description) allows(value json.RawMessage) bool {
	return string(value) == "null" || !d.exact && zero(value) || slices.Contains(d.may, string(value))
}

// zero reports whether a value, in JSON, is unset, in all its parts.
func zero(value json.RawMessage) bool {
	switch text := string(bytes.TrimSpace(value)); text {
	case "null", "false", "0", `""`, `"0"`, `"0s"`, "{}", "[]":
		return true
	}
	var parts map[string]json.RawMessage
	if json.Unmarshal(value, &parts) != nil {
		return false
	}
	for _, part := range parts {
		if !zero(part) {
			return false
		}
	}
	return true
}
