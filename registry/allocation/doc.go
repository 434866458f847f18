// Package allocation allocates cluster IPs and node ports to services.
//
// Allocations are stored where every server on the same store sees them and only one can succeed: as an
// IPAddress object for each cluster IP (KEP-1880), and as one RangeAllocation record for all node ports, both
// with upstream's keys and format. TakeAddress allocates from the networks of the ServiceCIDRs; Ports is the
// record of node ports. Requests for any address or port are served from the upper band of a range first, so
// that the lower band stays free for requests for a certain one (KEP-3070, KEP-3668). Searches begin at a seed,
// so that runs with the same seeds allocate the same.
//
// A crash between allocation and use leaks. Repair finds allocations without a user and users without an
// allocation, and corrects both; it never frees anything in use or about to be.
//
// Errors are the sentinels of this package, with upstream's texts, and those of the store and the registry.
// Ports and Repair are safe for concurrent use; a Range is a value.
package allocation
