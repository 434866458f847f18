// Package localprovisioner makes persistent volumes of directories on nodes, as an external provisioner: for each claim
// whose storage class names Provisioner, once a node has been selected for its first consumer. The volume is of that
// node only. When the claim is gone, the directory is removed and then the volume, unless it is to be retained.
//
// Directories makes and removes the directories: Names remembers names, for nodes that are simulated; node/localvolumes
// keeps them on this machine.
//
// Volumes are shared by all pods of their node: of the access modes only ReadWriteOnce and ReadWriteOncePod can be
// kept. Capacity is recorded as asked for and not enforced. Claims that ask for more (a selector, a data source, a raw
// device, other access modes) and classes with parameters or immediate binding are refused with events in the external
// provisioners' words.
//
// # Errors and concurrency
//
// A Controller is run by a controllers.Loop. It may be stopped between any two of its steps: names follow from the
// claim's UID, and every step can be repeated. Failures are retried.
package localprovisioner
