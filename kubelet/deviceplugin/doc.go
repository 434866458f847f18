// Package deviceplugin gives the devices of device plugins to containers, for package kubelet, whose DevicePlugins a Plugins
// is.
//
// Plugins serve v1beta1.DevicePlugin at a socket and register at device-plugins/kubelet.sock in the kubelet's directory, or with
// a socket in its plugins_registry, as with upstream's kubelet. The devices that they list are an extended resource of the
// node: unhealthy ones count for its capacity only, and five minutes after the plugin has gone the resource is 0.
//
// A pod is admitted if there are enough healthy devices that no other pod has, which are then kept for it. Its plugins allocate
// them before the pod's sandbox is created: only this pod waits for a plugin that does not answer. If a plugin refuses, the pod
// is rejected, with upstream's reason and message. Containers get the devices, mounts, variables, annotations and CDI devices
// that the plugin named, also those that a later process starts: the file kubelet_internal_checkpoint, in upstream's format,
// keeps them until the pod has ended. Devices of init containers are used again by the containers that follow.
//
// Calls of a plugin end after 30 seconds. What plugins answer is checked; errors have upstream's texts.
//
// Topology hints are not implemented: which NUMA node devices are of is kept, but does not influence which are chosen. A plugin
// may choose by GetPreferredAllocation.
//
// All methods are safe for concurrent use. Run serves plugins until its context ends.
package deviceplugin
