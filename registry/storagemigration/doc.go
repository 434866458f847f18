// Package storagemigration has the kinds of the API group storagemigration.k8s.io: StorageVersionMigration. Its rules and
// messages are those of Kubernetes 1.37. A Kind is data without state, safe for concurrent use.
package storagemigration
