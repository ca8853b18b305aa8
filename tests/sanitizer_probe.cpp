// Starts and ends: whether sanitizers run on this machine at all.
int main() { return 0; }
