// Package dra has drivers prepare the devices of pods' resource claims (dynamic resource allocation, KEP-4381), for package
// kubelet, whose Devices a Manager is.
//
// Drivers register through the kubelet's plugin directory, as with upstream's kubelet, and serve v1.DRAPlugin at a socket.
// A pod's claims are read from the API, prepared by the drivers of their devices before the pod's containers are created,
// and unprepared when the last pod with them has no container left. What was prepared is kept in files, so that a later
// process gives it back, and containers that it creates get the same devices. When a driver has gone for half a minute, what
// it published of the node is deleted.
//
// Every call of a driver ends after 45 seconds. Calls about one claim follow each other; a driver that hangs keeps the pods
// waiting that have its devices, and no others.
//
// Errors have upstream's texts; the caller repeats the call. ErrNotRegistered means that a driver does not run here.
// All methods are safe for concurrent use. Run registers drivers until its context ends.
package dra
